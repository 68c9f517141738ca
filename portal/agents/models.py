"""Agents: whoever pushes attempts. A token is shown once and kept only as a hash."""

from __future__ import annotations

from django.db import models


class Agent(models.Model):
    class Kind(models.TextChoices):
        TUNER = "tuner", "tuner"
        LLM = "llm", "language model"
        COMMAND = "command", "command"
        HUMAN = "human", "human"
        BASELINE = "baseline", "baseline"

    name = models.SlugField(max_length=100, unique=True)
    kind = models.CharField(max_length=10, choices=Kind, default=Kind.COMMAND)
    token_hash = models.CharField(max_length=128, blank=True, db_index=True)
    token_prefix = models.CharField(max_length=12, blank=True, help_text="First characters, to recognise a token.")
    is_active = models.BooleanField(default=True)
    created_at = models.DateTimeField(auto_now_add=True)
    last_seen_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name
