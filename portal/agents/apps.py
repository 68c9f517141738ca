from django.apps import AppConfig


class Config(AppConfig):
    name = "portal.agents"
    label = "agents"
    default_auto_field = "django.db.models.BigAutoField"
