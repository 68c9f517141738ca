"""Campaigns: problems × one language × one hardware, with a budget."""

from __future__ import annotations

from django.core.exceptions import ValidationError
from django.db import models
from django.urls import reverse

from agentcore.vocabulary import HardwareName, Language


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
    started_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-started_at"]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("campaign-detail", args=[self.name])

    def clean(self) -> None:
        """C++ runs on the CPU target, CUDA, CuTe and Triton on GPUs, PyTorch on both."""
        on_gpu = self.hardware != HardwareName.CPU
        if (self.language == Language.CPP and on_gpu) or (
            self.language in (Language.CUDA, Language.CUTE, Language.TRITON) and not on_gpu
        ):
            raise ValidationError({"hardware": f"{self.language} kernels do not run on {self.hardware}"})
