"""The words of the pages, each with what it means; tables link here."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from agentcore.vocabulary import CheckName, Language
from portal.pages.glossary import CHECKS, TERMS
from portal.pages.verdicts import VERDICTS


def glossary(request: HttpRequest) -> HttpResponse:
    return render(request, "glossary.html", {
        "title": "Glossary", "terms": TERMS, "verdicts": VERDICTS.items(),
        "checks": [(name.value, CHECKS.get(name, "")) for name in CheckName],
        "languages": [language.value for language in Language],
    })
