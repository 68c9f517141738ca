"""What agents must know to take part: the file protocol.md as a page, and as it is."""

from __future__ import annotations

from pathlib import Path

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from portal.pages import highlighting


def protocol(request: HttpRequest) -> HttpResponse:
    """The file as HTML."""
    # The first line is the page's own h1, so that the sections below are h2 as they are.
    heading, _, body = _text().partition("\n")
    return render(request, "protocol.html", {
        "title": heading.lstrip("# ") or "The protocol", "body": highlighting.markdown(body, below=0),
    })


def protocol_text(request: HttpRequest) -> HttpResponse:
    """The file itself, for agents and whoever reads with curl."""
    return HttpResponse(_text(), content_type="text/plain; charset=utf-8")


def _text() -> str:
    try:
        return Path(settings.PROTOCOL_PATH).read_text("utf-8")
    except FileNotFoundError:
        raise Http404("this portal was installed without its protocol.md") from None
