"""Attempts: commits of the attempts repository, indexed. Git is the record; these rows can be rebuilt from it."""

from __future__ import annotations

from django.db import models
from django.urls import reverse


class Attempt(models.Model):
    """One commit that changes one problem's kernel in one language."""

    class Kind(models.TextChoices):
        AGENT = "agent", "agent"
        BASELINE = "baseline", "baseline"

    problem = models.ForeignKey("problems.Problem", on_delete=models.PROTECT, related_name="attempts")
    language = models.CharField(max_length=8)
    agent = models.ForeignKey("agents.Agent", on_delete=models.PROTECT, related_name="attempts")
    slug = models.CharField(max_length=100)
    kind = models.CharField(max_length=10, choices=Kind, default=Kind.AGENT)
    ref = models.CharField(max_length=400, db_index=True)
    commit = models.CharField(max_length=40, unique=True)
    kernel_tree = models.CharField(max_length=40, db_index=True, help_text="Tree id of kernels/<problem>/<language>.")
    parent = models.ForeignKey("self", null=True, blank=True, on_delete=models.SET_NULL, related_name="children")
    campaign = models.ForeignKey(
        "campaigns.Campaign", null=True, blank=True, on_delete=models.SET_NULL, related_name="attempts"
    )
    subject = models.CharField(max_length=300, blank=True)
    body = models.TextField(blank=True)
    hypothesis = models.TextField(blank=True)
    model = models.CharField(max_length=100, blank=True)
    authored_at = models.DateTimeField()
    received_at = models.DateTimeField(auto_now_add=True)
    note_written_at = models.DateTimeField(null=True, blank=True, help_text="When the git note was appended.")

    class Meta:
        ordering = ["-received_at", "-id"]
        indexes = [models.Index(fields=["problem", "language", "received_at"])]

    def __str__(self) -> str:
        return f"{self.problem_id}/{self.language} {self.commit[:10]}"

    def get_absolute_url(self) -> str:
        return reverse("attempt-detail", args=[self.commit])
