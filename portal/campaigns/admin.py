"""Campaigns in the admin: made, paused and finished here; every change is an event."""

from __future__ import annotations

from django import forms
from django.contrib import admin, messages
from django.utils import timezone

from agentcore.baselines import BaselineKind
from portal.campaigns.models import BUDGET, Campaign, Rescoring
from portal.events.models import log as log_event


class CampaignForm(forms.ModelForm):
    """The rule as boxes to tick."""

    baseline_kinds = forms.MultipleChoiceField(
        label="Baselines", required=False, widget=forms.CheckboxSelectMultiple,
        choices=[(kind.value, f"{kind.value}: {kind.label}") for kind in BaselineKind],
        help_text=Campaign._meta.get_field("baseline_kinds").help_text,
    )

    class Meta:
        model = Campaign
        fields = "__all__"  # noqa: DJ007  the admin's own permissions say who may change what
        help_texts = {
            "budget": f"An object of numbers: {', '.join(BUDGET)}. The campaign's page shows it; nothing is stopped by "
            "it, so pause or finish the campaign when it is used up.",
            "state": "An attempt counts for a campaign that is active or paused. While it is paused, attempts are "
            "recorded and wait: they are measured when it is resumed or finished. Results are kept.",
        }


@admin.register(Campaign)
class CampaignAdmin(admin.ModelAdmin):
    form = CampaignForm
    list_display = ["name", "language", "hardware", "state", "started_at", "finished_at"]
    list_filter = ["state", "language", "hardware"]
    search_fields = ["name"]
    filter_horizontal = ["problems"]
    readonly_fields = ["started_at", "finished_at"]

    def get_readonly_fields(self, request, obj=None):
        # What the campaign's figures are about does not change once it runs.
        return [*self.readonly_fields, "name", "language", "hardware"] if obj else self.readonly_fields

    def has_delete_permission(self, request, obj=None) -> bool:
        return False

    def save_model(self, request, obj: Campaign, form, change) -> None:
        if obj.state == Campaign.State.FINISHED:
            obj.finished_at = obj.finished_at or timezone.now()
        else:
            obj.finished_at = None
        super().save_model(request, obj, form, change)
        if Rescoring.objects.filter(campaign=obj).exists():
            messages.info(request, f"The scores of {obj.name} are being computed again: its pages say until when.")
        log_event(
            "campaign.changed" if change else "campaign.created", request.user, campaign=obj.name, state=obj.state,
            fields=sorted(form.changed_data),
        )
