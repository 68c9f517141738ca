"""`manage.py initrepos`: create both repositories, or bring their starting tree and hooks up to date."""

from __future__ import annotations

from django.conf import settings
from django.core.management.base import BaseCommand

from portal.attempts.repository import ensure_repositories


class Command(BaseCommand):
    help = "Create the attempts and solutions repositories, or bring what agents start from up to date."

    def handle(self, *args, **options) -> None:
        ensure_repositories()
        self.stdout.write(f"{settings.ATTEMPTS_REPOSITORY}\n{settings.SOLUTIONS_REPOSITORY}")
