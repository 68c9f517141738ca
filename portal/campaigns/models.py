"""Campaigns: problems × one language × one hardware, with a budget."""

from __future__ import annotations

from math import inf

from django.core.exceptions import ValidationError
from django.db import models, transaction
from django.urls import reverse

from agentcore.baselines import BaselineKind
from agentcore.vocabulary import HardwareName, Language

BUDGET = ("attempts", "device_minutes", "wall_minutes")
"""What a campaign's budget may name. Pages show it; nothing stops by it: that is left to who pauses the campaign."""


class Campaign(models.Model):
    class State(models.TextChoices):
        ACTIVE = "active", "active"
        PAUSED = "paused", "paused"
        FINISHED = "finished", "finished"

    name = models.SlugField(max_length=100, unique=True)
    language = models.CharField(max_length=8, choices=[(member.value, member.value) for member in Language])
    hardware = models.CharField(max_length=8, choices=[(member.value, member.value) for member in HardwareName])
    problems = models.ManyToManyField("problems.Problem", related_name="campaigns")
    state = models.CharField(max_length=10, choices=State, default=State.ACTIVE)
    budget = models.JSONField(
        default=dict, blank=True, help_text="attempts, device_minutes, wall_minutes; absent = unlimited."
    )
    baseline_kinds = models.JSONField(
        "baselines", default=list, blank=True,
        help_text="The kinds of baseline that T_b may come from; none chosen: any. Changing it scores attempts again.",
    )
    started_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-started_at"]

    def __str__(self) -> str:
        return self.name

    def save(self, *args, **kwargs) -> None:
        """Saved with another rule, scoring its attempts again is queued; what they scored before is kept.

        Saved as no longer paused, whoever measures is told of what waited for that.
        """
        before = Campaign.objects.filter(pk=self.pk).values("baseline_kinds", "state").first()
        with transaction.atomic():
            super().save(*args, **kwargs)
            # Imported here: evaluations refer to attempts, and these to campaigns.
            if before is not None and before["baseline_kinds"] != self.baseline_kinds:
                from portal.evaluations import rescoring

                rescoring.ask(self)
            if before is not None and before["state"] == self.State.PAUSED != self.state:
                from portal.evaluations import queue

                queue.wake_all()

    def get_absolute_url(self) -> str:
        return reverse("campaign-detail", args=[self.name])

    def clean(self) -> None:
        """C++ runs on the CPU target, CUDA, CuTe and Triton on GPUs, PyTorch on both."""
        on_gpu = self.hardware != HardwareName.CPU
        if (self.language == Language.CPP and on_gpu) or (
            self.language in (Language.CUDA, Language.CUTE, Language.TRITON) and not on_gpu
        ):
            raise ValidationError({"hardware": f"{self.language} kernels do not run on {self.hardware}"})
        known = [kind.value for kind in BaselineKind]
        if not isinstance(self.baseline_kinds, list) or any(kind not in known for kind in self.baseline_kinds):
            raise ValidationError({"baseline_kinds": f"must be a list of: {', '.join(known)}"})
        parts = self.budget.items() if isinstance(self.budget, dict) else [("", None)]
        if any(key not in BUDGET or type(limit) not in (int, float) or not 0 < limit < inf for key, limit in parts):
            raise ValidationError({"budget": f"must be an object of numbers above 0, by name: {', '.join(BUDGET)}"})


class Rescoring(models.Model):
    """A campaign whose attempts are being scored again, after its rule changed; the row goes when all of them are.

    How far it came is kept with each step, so that a worker that dies half way is followed by another at that place.
    """

    campaign = models.OneToOneField(Campaign, on_delete=models.CASCADE, related_name="rescoring")
    asked_at = models.DateTimeField(help_text="When the rule changed last. A later change starts again.")
    touched_at = models.DateTimeField(auto_now=True)
    after = models.JSONField(default=list, help_text="[problem, hardware, evaluation]: what was scored last.")
    scored = models.PositiveIntegerField(default=0)
    trouble = models.CharField(max_length=500, blank=True, help_text="What the last try failed of.")

    def __str__(self) -> str:
        return f"scores of {self.campaign} under its new rule"
