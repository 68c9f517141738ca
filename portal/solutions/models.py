"""Reviews and the solutions they led to. Both are also in git: review notes and published commits' trailers."""

from __future__ import annotations

from django.conf import settings
from django.db import models

AUTOMATIC = "Automatic choice of the quick start, which no person reviewed"
"""How the comment of an approval begins that a program gave."""


class Review(models.Model):
    class Decision(models.TextChoices):
        APPROVED = "approved", "approved"
        REJECTED = "rejected", "rejected"
        COMMENT = "comment", "comment"

    attempt = models.ForeignKey("attempts.Attempt", on_delete=models.PROTECT, related_name="reviews")
    evaluation = models.ForeignKey(
        "evaluations.Evaluation", null=True, blank=True, on_delete=models.PROTECT, related_name="reviews"
    )
    reviewer = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    reviewer_name = models.CharField(max_length=150)
    decision = models.CharField(max_length=10, choices=Decision)
    comment = models.TextField(blank=True)
    created_at = models.DateTimeField()
    note_written_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["created_at", "id"]

    def __str__(self) -> str:
        return f"{self.decision} by {self.reviewer_name}"

    @property
    def is_automatic(self) -> bool:
        """Whether a program decided, under the reviewer's account."""
        return self.comment.startswith(AUTOMATIC)


class Solution(models.Model):
    """An attempt merged into the public repository. The newest row of a (problem, language, hardware) is current."""

    problem = models.ForeignKey("problems.Problem", on_delete=models.PROTECT, related_name="solutions")
    language = models.CharField(max_length=8)
    hardware = models.CharField(max_length=8)
    attempt = models.ForeignKey("attempts.Attempt", on_delete=models.PROTECT, related_name="solutions")
    evaluation = models.ForeignKey("evaluations.Evaluation", on_delete=models.PROTECT, related_name="solutions")
    review = models.ForeignKey(Review, null=True, blank=True, on_delete=models.PROTECT, related_name="solutions")
    commit = models.CharField(max_length=40, unique=True, help_text="Commit on main of solutions.git.")
    published_at = models.DateTimeField()
    superseded_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-published_at", "-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["problem", "language", "hardware"],
                condition=models.Q(superseded_at__isnull=True),
                name="one_current_solution",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.problem_id}/{self.language} on {self.hardware}"
