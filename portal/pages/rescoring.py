"""What a page says while scores on it are being computed again under a campaign's new rule. One query."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from portal.campaigns.models import Rescoring
from portal.pages import text


@dataclass(frozen=True, slots=True)
class Pending:
    """``scored`` evaluations of ``campaign`` carry their new score so far; ``trouble`` says what the last try met."""

    campaign: str
    rule: str
    since: datetime
    scored: int
    trouble: str

    @property
    def version(self) -> str:
        return f"{self.campaign}.{self.since:%H%M%S%f}.{self.scored}.{bool(self.trouble):d}"


def pending(**campaign_filter: object) -> list[Pending]:
    """Of the campaigns that match, such as ``campaign=…`` or ``campaign__problems=…``; most often none."""
    rows = Rescoring.objects.filter(**campaign_filter).select_related("campaign").order_by("campaign__name")[:5]
    return [
        Pending(
            row.campaign.name, text.label(", ".join(map(str, row.campaign.baseline_kinds)), 80) or "any kind",
            row.asked_at, row.scored, text.label(row.trouble, 200),
        )
        for row in rows
    ]
