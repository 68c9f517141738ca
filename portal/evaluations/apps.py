from django.apps import AppConfig
from django.db.models.signals import post_migrate


class Config(AppConfig):
    name = "portal.evaluations"
    label = "evaluations"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from portal.evaluations.schedule import ensure_schedule

        post_migrate.connect(ensure_schedule, sender=self)
