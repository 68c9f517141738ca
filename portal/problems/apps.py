from django.apps import AppConfig


class Config(AppConfig):
    name = "portal.problems"
    label = "problems"
    default_auto_field = "django.db.models.BigAutoField"
