from django.apps import AppConfig


class Config(AppConfig):
    name = "portal.evaluations"
    label = "evaluations"
    default_auto_field = "django.db.models.BigAutoField"
