"""Self-tests: what a device's judge made of every known cheat and of honest kernels when it was asked."""

from __future__ import annotations

from django.db import models
from django.urls import reverse


class SelfTest(models.Model):
    """One run of the whole cheat corpus on one device. Rows are only ever added; the newest counts."""

    device = models.ForeignKey("evaluations.Device", on_delete=models.CASCADE, related_name="selftests")
    harness_version = models.CharField(max_length=32)
    sandbox = models.CharField(max_length=40, blank=True)
    started_at = models.DateTimeField()
    seconds = models.FloatField()
    stored_at = models.DateTimeField(auto_now_add=True)
    stored_by_name = models.CharField(max_length=150, blank=True)
    corpus_digest = models.CharField(max_length=64, blank=True)
    passed = models.BooleanField(help_text="No exploit accepted, no control refused, every refusal for its own reason.")

    exploits = models.PositiveIntegerField()
    accepted = models.PositiveIntegerField(help_text="Exploits that got a passing verdict or out of the sandbox.")
    misnamed = models.PositiveIntegerField(help_text="Exploits refused by another check than they name.")
    gained_nothing = models.PositiveIntegerField(help_text="Exploits that passed no faster than honest work.")
    controls = models.PositiveIntegerField()
    refused = models.PositiveIntegerField(help_text="Honest controls that did not pass.")
    faults = models.PositiveIntegerField()
    misjudged = models.PositiveIntegerField(help_text="Honest faults that got another verdict than theirs.")
    skipped = models.PositiveIntegerField(help_text="Cases that need what the host does not have.")
    retried = models.PositiveIntegerField(help_text="Cases that came out right only when asked again.")
    report = models.JSONField(help_text="The whole report, case by case.")

    class Meta:
        ordering = ["-started_at", "-id"]
        constraints = [
            models.UniqueConstraint(fields=["device", "started_at"], name="selftest_once"),
        ]

    def __str__(self) -> str:
        outcome = "passed" if self.passed else "failed"
        return f"self-test of {self.device} at {self.started_at:%Y-%m-%d %H:%M}: {outcome}"

    def get_absolute_url(self) -> str:
        return reverse("selftest-detail", args=[self.pk])
