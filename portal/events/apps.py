from django.apps import AppConfig


class Config(AppConfig):
    name = "portal.events"
    label = "events"
    default_auto_field = "django.db.models.BigAutoField"
