from django.apps import AppConfig


class Config(AppConfig):
    name = "portal.campaigns"
    label = "campaigns"
    default_auto_field = "django.db.models.BigAutoField"
