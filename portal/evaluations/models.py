"""Evaluations: the work queue and its results. A row is the truth about a piece of work (see queue.py)."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.urls import reverse
from django.utils.functional import cached_property

from agentcore.vocabulary import CheckStatus, HardwareName, Verdict
from portal.campaigns.models import Campaign


class Evaluation(models.Model):
    """One judged run of an attempt on one hardware. Finished rows are never edited, only superseded."""

    class Kind(models.TextChoices):
        """What is asked for. Only ``measure`` gives times: standings, scores and duplicates look at no other kind."""

        MEASURE = "measure", "measured"
        COMPILE = "compile", "compiled only, never measured"
        SANITIZE = "sanitize", "checked by sanitizers"
        COMPARE = "compare", "compared with another attempt"

    class State(models.TextChoices):
        QUEUED = "queued", "queued"
        RUNNING = "running", "running"
        DONE = "done", "done"
        DUPLICATE = "duplicate", "duplicate of an earlier one"
        CANCELLED = "cancelled", "cancelled"

    PENDING = (State.QUEUED, State.RUNNING)
    """The states of what is still to be judged."""

    class Priority(models.IntegerChoices):
        AGENT = 10, "agent"
        BASELINE = 20, "baseline"
        RERUN = 30, "admin rerun"

    attempt = models.ForeignKey("attempts.Attempt", on_delete=models.PROTECT, related_name="evaluations")
    hardware = models.CharField(max_length=8, choices=[(h.value, h.value) for h in HardwareName])
    kind = models.CharField(max_length=10, choices=Kind, default=Kind.MEASURE)
    state = models.CharField(max_length=10, choices=State, default=State.QUEUED)
    priority = models.IntegerField(choices=Priority, default=Priority.AGENT)
    reason = models.CharField(max_length=200, blank=True, help_text="Why it was asked for: push, baseline, rerun…")
    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    against = models.ForeignKey(
        "attempts.Attempt", null=True, blank=True, on_delete=models.PROTECT, related_name="compared_with",
        help_text="Of a comparison: the attempt that this one is compared with, which came before.",
    )
    duplicate_of = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.PROTECT, related_name="duplicates"
    )

    # The lease: set by one conditional UPDATE at claim, checked by every later write. The token that finished the
    # row stays, as the identity of that run in the git note.
    lease_token = models.CharField(max_length=64, blank=True)
    lease_expires_at = models.DateTimeField(null=True, blank=True)
    claims = models.PositiveIntegerField(default=0)
    claimed_by = models.CharField(max_length=200, blank=True)
    not_before = models.DateTimeField(null=True, blank=True, help_text="Pause before the next claim after a failure.")

    queued_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    # The outcome: `result` is the whole EvaluationResult; the columns beside it are for filters and plots.
    verdict = models.CharField(max_length=20, blank=True, choices=[(v.value, v.value) for v in Verdict])
    message = models.TextField(blank=True)
    harness_version = models.CharField(max_length=32, blank=True)
    problem_digest = models.CharField(max_length=64, blank=True)
    device_uuid = models.CharField(max_length=80, blank=True)
    result = models.JSONField(null=True, blank=True)
    # A copy of the result's own, so that many evaluations can be compared without reading their results.
    stamp = models.JSONField(null=True, blank=True)
    latency_geomean_us = models.FloatField(null=True, blank=True)
    # Scores are relative to baselines and are refreshed when one finishes (scoring.py). This is the one that is fastest
    # as a whole; T_b is the time of the fastest of each workload, and stands in its row.
    baseline = models.ForeignKey("self", null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    speedup = models.FloatField(null=True, blank=True, help_text="Geometric mean of T_b/T_k over workloads.")
    sol_score = models.FloatField(null=True, blank=True, help_text="Mean S over workloads.")
    note_written_at = models.DateTimeField(null=True, blank=True, help_text="When the git note was appended.")

    class Meta:
        ordering = ["-queued_at", "-id"]
        indexes = [
            models.Index(fields=["state", "hardware", "-priority", "queued_at"]),
            models.Index(fields=["attempt", "hardware", "state"]),
        ]

    def __str__(self) -> str:
        return f"evaluation {self.pk} of {self.attempt_id} on {self.hardware}: {self.verdict or self.state}"

    def get_absolute_url(self) -> str:
        return reverse("evaluation-detail", args=[self.pk])

    @classmethod
    def held_back(cls) -> models.Q:
        """Those queued for an agent whose campaign is paused: nobody claims them. What people ask for goes on.

        So does what an attempt outside the paused campaigns waits for as its duplicate: a pause is not its affair.
        """
        wanted = cls._wanted_elsewhere(cls.objects.filter(duplicate_of=models.OuterRef("pk")))
        return models.Q(
            state=cls.State.QUEUED, priority__lte=cls.Priority.AGENT, attempt__campaign__state=Campaign.State.PAUSED
        ) & ~models.Q(models.Exists(wanted))

    @staticmethod
    def _wanted_elsewhere(duplicates: models.QuerySet[Evaluation]) -> models.QuerySet[Evaluation]:
        return duplicates.exclude(attempt__campaign__state=Campaign.State.PAUSED)

    @cached_property
    def waits(self) -> str:
        """Why it is held back (as :meth:`held_back`), or ""."""
        if self.state == self.State.QUEUED and self.priority <= self.Priority.AGENT:
            campaign = self.attempt.campaign
            is_paused = campaign is not None and campaign.state == Campaign.State.PAUSED
            if is_paused and not self._wanted_elsewhere(self.duplicates).exists():
                return f"waits: campaign {campaign.name} is paused"
        return ""


class WorkloadResult(models.Model):
    """One workload of one finished evaluation. Times are microseconds per call."""

    evaluation = models.ForeignKey(Evaluation, on_delete=models.CASCADE, related_name="workloads")
    uuid = models.CharField(max_length=64)
    index = models.PositiveIntegerField()
    axes = models.JSONField(default=dict)
    heldout = models.BooleanField(default=False)
    verdict = models.CharField(max_length=20)
    latency_us = models.FloatField(null=True, blank=True)
    latency_low_us = models.FloatField(null=True, blank=True)
    latency_high_us = models.FloatField(null=True, blank=True)
    t_sol_us = models.FloatField(null=True, blank=True)
    baseline_us = models.FloatField(null=True, blank=True)
    baseline = models.ForeignKey(
        Evaluation, null=True, blank=True, on_delete=models.SET_NULL, related_name="+",
        help_text="Whose time T_b is.",
    )
    baseline_kind = models.CharField(max_length=10, blank=True)
    sol_score = models.FloatField(null=True, blank=True)

    class Meta:
        ordering = ["heldout", "index"]
        constraints = [
            models.UniqueConstraint(fields=["evaluation", "uuid", "heldout"], name="workload_result_once"),
        ]

    def __str__(self) -> str:
        return f"{self.evaluation_id}[{self.index}]"


class ScoreRecord(models.Model):
    """A score that an evaluation had, with the T_b it was made with. Rows are added, never edited; the newest stands.

    ``workloads`` is a list of {uuid, heldout, baseline_us, baseline (an evaluation's number), kind, sol_score}.
    """

    evaluation = models.ForeignKey(Evaluation, on_delete=models.CASCADE, related_name="scores")
    made_at = models.DateTimeField(auto_now_add=True)
    rule = models.JSONField(default=list, help_text="The kinds of baseline that were admitted; none named: any.")
    baseline = models.ForeignKey(Evaluation, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    speedup = models.FloatField(null=True, blank=True)
    sol_score = models.FloatField(null=True, blank=True)
    workloads = models.JSONField(default=list)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"score of evaluation {self.evaluation_id}: {self.sol_score}"

    def says_other_than(self, earlier: ScoreRecord | None) -> bool:
        """Whether it is worth keeping beside the one before it: another T_b, another score, another rule."""
        if earlier is None:
            return any(workload["baseline_us"] for workload in self.workloads)
        return (self.rule, self.workloads) != (earlier.rule, earlier.workloads)


class CheckResult(models.Model):
    """One named check of one finished evaluation; ``workload_index`` is null for its own and held-out ones."""

    evaluation = models.ForeignKey(Evaluation, on_delete=models.CASCADE, related_name="checks")
    workload_index = models.PositiveIntegerField(null=True, blank=True)
    name = models.CharField(max_length=40)
    status = models.CharField(max_length=4, choices=[(s.value, s.value) for s in CheckStatus])
    message = models.TextField(blank=True)

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.name}: {self.status}"


class Device(models.Model):
    """A physical device some worker has reported. One row per accelerator (or host, for the CPU target)."""

    uuid = models.CharField(max_length=80, unique=True)
    hardware = models.CharField(max_length=8)
    name = models.CharField(max_length=200)
    host = models.CharField(max_length=200)
    driver = models.CharField(max_length=80, blank=True)
    sandbox = models.CharField(max_length=40, blank=True)
    first_seen_at = models.DateTimeField(auto_now_add=True)
    last_seen_at = models.DateTimeField()

    class Meta:
        ordering = ["hardware", "host", "uuid"]

    def __str__(self) -> str:
        return f"{self.name} ({self.host})"
