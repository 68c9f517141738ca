from django.apps import AppConfig


class Config(AppConfig):
    name = "portal.solutions"
    label = "solutions"
    default_auto_field = "django.db.models.BigAutoField"
