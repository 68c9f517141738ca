"""The words of the pages, each with what it means; tables link here."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from agentcore.problems.tolerances import BY_OUTPUT_DTYPE
from agentcore.vocabulary import CheckName, Language
from portal.pages import tables
from portal.pages.glossary import CHECKS, TERMS
from portal.pages.tables import Column, Table
from portal.pages.verdicts import VERDICTS


def glossary(request: HttpRequest) -> HttpResponse:
    return render(request, "glossary.html", {
        "title": "Glossary", "terms": TERMS, "verdicts": VERDICTS.items(),
        "checks": [(name.value, CHECKS.get(name, "")) for name in CheckName],
        "tolerances": Table(
            "tolerances", "Tolerance of a workload that states none", [
                Column("dtype", "output dtype", lambda row: row[0], tables.code),
                Column("max_atol", "atol", lambda row: row[1][0], lambda v, _: f"{v:g}", numeric=True),
                Column("max_rtol", "rtol", lambda row: row[1][1], lambda v, _: f"{v:g}", numeric=True),
            ], list(BY_OUTPUT_DTYPE.items()),
        ),
        "languages": [language.value for language in Language],
    })
