"""Template vocabulary: badges, numbers with units, bounded text, tables and charts."""

from __future__ import annotations

from typing import Any

from django import template

from portal.pages import formatting, tables, text, verdicts
from portal.pages.staticfiles import map_style_id

register = template.Library()

register.filter("badge", lambda value: verdicts.badge(str(value or "none")))
register.filter("score", formatting.score)
register.filter("times", formatting.times)
register.filter("microseconds", formatting.microseconds)
register.filter("seconds", formatting.seconds)
register.filter("data_size", formatting.data_size)
register.filter("when", tables.when)
register.simple_tag(map_style_id, name="map_style_id")


@register.filter
def label(value: Any, limit: int = text.LABEL_CHARACTERS) -> str:
    """A stranger's text on one line, bounded, nothing invisible in it."""
    return text.label(value, int(limit))


@register.filter
def shown(value: Any) -> text.Shown:
    """A stranger's text as a bounded block."""
    return text.block(value)


@register.inclusion_tag("tables/table.html", takes_context=True)
def table(context: dict[str, Any], value: tables.Table, formats: str = "") -> dict[str, Any]:
    """The table; with ``formats`` its CSV and JSON links (the name picks it among several of a page)."""
    return {"table": value, "formats": formats, "request": context.get("request")}


@register.inclusion_tag("charts/chart.html", takes_context=True)
def chart(context: dict[str, Any], value: Any) -> dict[str, Any]:
    """A plot and its table twin."""
    return {"chart": value, "request": context.get("request")}
