from django.apps import AppConfig


class Config(AppConfig):
    name = "portal.githttp"
    label = "githttp"
    default_auto_field = "django.db.models.BigAutoField"
