from django.apps import AppConfig


class Config(AppConfig):
    name = "portal.attempts"
    label = "attempts"
    default_auto_field = "django.db.models.BigAutoField"
