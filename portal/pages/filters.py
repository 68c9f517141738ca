"""Filters of list pages; every one is a parameter in the URL. Not for sorting (queries.ordered)."""

from __future__ import annotations

import django_filters as filters
from django import forms
from django.db.models import Q, QuerySet

from agentcore.vocabulary import HardwareName, Language, Verdict
from portal.agents.models import Agent
from portal.attempts.models import Attempt
from portal.campaigns.models import Campaign
from portal.events.models import Event
from portal.pages.verdicts import look
from portal.problems.models import Problem

LANGUAGES = [(member.value, member.value) for member in Language]
HARDWARE = [(member.value, member.value) for member in HardwareName]
OUTCOMES = [(member.value, look(member.value).word) for member in Verdict] + [
    ("queued", "queued"), ("running", "running"), ("duplicate", "duplicate"),
]


def _by_name(model: type, label: str, field: str) -> filters.ModelChoiceFilter:
    return filters.ModelChoiceFilter(
        queryset=model.objects.only("name"), to_field_name="name", field_name=field, label=label, empty_label="any"
    )


class AttemptFilter(filters.FilterSet):
    """Expects a queryset from ``queries.with_outcome``."""

    q = filters.CharFilter(
        method="search", label="text", max_length=100,
        widget=forms.TextInput(attrs={"type": "search", "placeholder": "subject, hypothesis, commit"}),
    )
    problem = _by_name(Problem, "problem", "problem")
    language = filters.ChoiceFilter(choices=LANGUAGES, empty_label="any", label="language")
    hardware = filters.ChoiceFilter(choices=HARDWARE, field_name="work_hardware", empty_label="any", label="hardware")
    agent = _by_name(Agent, "agent", "agent")
    verdict = filters.ChoiceFilter(choices=OUTCOMES, method="by_outcome", empty_label="any", label="verdict")
    kind = filters.ChoiceFilter(choices=Attempt.Kind.choices, empty_label="any", label="kind")
    campaign = _by_name(Campaign, "campaign", "campaign")

    class Meta:
        model = Attempt
        fields: list[str] = []

    def search(self, queryset: QuerySet, _name: str, value: str) -> QuerySet:
        """Every word must occur in the subject, hypothesis, handoff or model, or begin the commit."""
        for word in value.split()[:8]:
            queryset = queryset.filter(
                Q(subject__icontains=word) | Q(hypothesis__icontains=word) | Q(body__icontains=word)
                | Q(model__icontains=word) | Q(commit__startswith=word.lower())
            )
        return queryset

    def by_outcome(self, queryset: QuerySet, _name: str, value: str) -> QuerySet:
        if value in ("queued", "running", "duplicate"):
            return queryset.filter(work_state=value)
        return queryset.filter(outcome_verdict=value)


class ProblemFilter(forms.Form):
    """The problem list is built in memory, one row per problem and track; this validates its parameters."""

    q = forms.CharField(
        required=False, max_length=100, label="text",
        widget=forms.TextInput(attrs={"type": "search", "placeholder": "name, description"}),
    )
    language = forms.ChoiceField(required=False, label="language", choices=[("", "any"), *LANGUAGES])
    hardware = forms.ChoiceField(required=False, label="hardware", choices=[("", "any"), *HARDWARE])
    campaign = forms.ModelChoiceField(
        Campaign.objects.only("name"), required=False, label="campaign", to_field_name="name", empty_label="any"
    )
    standing = forms.ChoiceField(required=False, label="standing", choices=[
        ("", "any"), ("faster", "faster than baseline"), ("slower", "not faster"), ("unsolved", "nothing passed"),
    ])


class EventFilter(filters.FilterSet):
    kind = filters.ChoiceFilter(choices=lambda: [
        (kind, kind) for kind in Event.objects.order_by("kind").values_list("kind", flat=True).distinct()
    ], empty_label="any", label="what")
    actor = filters.CharFilter(field_name="actor_name", lookup_expr="iexact", label="by", max_length=150)
    problem = _by_name(Problem, "problem", "problem")

    class Meta:
        model = Event
        fields: list[str] = []
