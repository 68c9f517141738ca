from django.apps import AppConfig


class Config(AppConfig):
    name = "portal.baselines"
    label = "baselines"
    default_auto_field = "django.db.models.BigAutoField"
