from django.apps import AppConfig


class Config(AppConfig):
    name = "portal.devices"
    label = "devices"
    default_auto_field = "django.db.models.BigAutoField"
