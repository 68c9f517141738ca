"""Problems as the portal knows them: imported from problem directories, re-imported in place, never deleted."""

from __future__ import annotations

from pathlib import Path

from django.conf import settings
from django.db import models
from django.urls import reverse


class Problem(models.Model):
    """A kernel to optimise. ``definition`` is the validated definition.json; the reference stays beside it."""

    name = models.SlugField(max_length=100, unique=True)
    title = models.CharField(max_length=200, blank=True)
    description = models.TextField(blank=True)
    digest = models.CharField(max_length=64, help_text="SHA-256 over definition, reference and workloads.")
    definition = models.JSONField(default=dict)
    reference = models.TextField(blank=True)
    brief = models.TextField(blank=True, help_text="The problem's README.md.")
    source_path = models.CharField(max_length=500, help_text="The directory the worker loads the problem from.")
    source = models.CharField(max_length=500, blank=True, help_text="File and row it was imported from, if converted.")
    original_name = models.CharField(max_length=500, blank=True, help_text="Its name there, if it is another.")
    official_source = models.CharField(max_length=200, blank=True, help_text="Whose bounds and baselines are kept.")
    official_hardware = models.CharField(max_length=200, blank=True)
    is_active = models.BooleanField(default=True)
    imported_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("problem-detail", args=[self.name])

    def directory(self) -> Path:
        """The problem's files on this host: where it was imported from, else by its name among what was converted
        here, else among this checkout's suite.

        Hosts of a fleet share the database but not their paths; the digest says whether the files are the same.
        """
        imported = Path(self.source_path)
        if imported.is_dir():
            return imported
        converted = converted_directory() / self.name
        return converted if converted.is_dir() else Path(settings.PROBLEMS_DIR) / self.name


def converted_directory() -> Path:
    """Where problems of other layouts (JSONL, parquet, FlashInfer-Trace) are written as directories."""
    return Path(settings.KERNELYARD_HOME) / "problems"


class Workload(models.Model):
    """Concrete axes of a problem for one target. Held-out workloads are never shown with their axes to agents."""

    class Target(models.TextChoices):
        GPU = "gpu", "GPU"
        CPU = "cpu", "CPU"
        HELDOUT = "heldout", "held out"

    problem = models.ForeignKey(Problem, on_delete=models.CASCADE, related_name="workloads")
    target = models.CharField(max_length=8, choices=Target)
    uuid = models.CharField(max_length=64)
    index = models.PositiveIntegerField()
    axes = models.JSONField(default=dict)
    tolerance = models.JSONField(default=dict)
    official_sol_us = models.FloatField(null=True, blank=True, help_text="The benchmark's own T_SOL, µs.")
    official_baseline_us = models.FloatField(null=True, blank=True, help_text="The benchmark's own T_b, µs.")
    is_current = models.BooleanField(default=True, help_text="False once a re-import no longer lists it.")

    class Meta:
        ordering = ["problem", "target", "index"]
        constraints = [
            models.UniqueConstraint(fields=["problem", "target", "uuid"], name="workload_once_per_target"),
        ]

    def __str__(self) -> str:
        return f"{self.problem_id}:{self.target}[{self.index}]"


class BoundCount(models.Model):
    """Whether T_SOL of a problem's workloads is known before anything is measured: one row a problem, one job each.

    Counting runs the reference in a sandbox (portal/problems/bounds.py). Shown, and used for no score: an evaluation
    carries the bounds that its judge counted.
    """

    class State(models.TextChoices):
        PENDING = "pending", "pending"
        RUNNING = "running", "running"
        DONE = "done", "done"
        FAILED = "failed", "failed"

    problem = models.OneToOneField(Problem, on_delete=models.CASCADE, related_name="bound_count")
    digest = models.CharField(max_length=64, help_text="Of the problem that is, or was, counted.")
    harness_version = models.CharField(max_length=32)
    state = models.CharField(max_length=8, choices=State, default=State.PENDING)
    tries = models.PositiveIntegerField(default=0)
    message = models.CharField(max_length=500, blank=True, help_text="Why it failed, or ended early.")
    host = models.CharField(max_length=200, blank=True, help_text="Whose CPU rates the bounds for cpu use.")
    asked_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["asked_at", "id"]

    def __str__(self) -> str:
        return f"bounds of {self.problem_id}: {self.state}"


class WorkloadBound(models.Model):
    """T_SOL of one workload on one hardware, with all it is made of, or why there is none."""

    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="bounds")
    hardware = models.CharField(max_length=8)
    t_sol_us = models.FloatField(null=True, blank=True)
    record = models.JSONField(null=True, blank=True, help_text="A BoundRecord: see agentcore/judge/result.py.")
    trouble = models.CharField(max_length=500, blank=True)

    class Meta:
        ordering = ["workload", "hardware"]
        constraints = [
            models.UniqueConstraint(fields=["workload", "hardware"], name="bound_once_per_hardware"),
        ]

    def __str__(self) -> str:
        return f"{self.workload} on {self.hardware}: {self.t_sol_us}"
