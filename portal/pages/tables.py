"""Tables: one description gives the HTML, the CSV and the JSON of the same rows.

Not for querying: rows come ready. A column knows how to read a value from a row and how to show it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.core.paginator import Page, Paginator
from django.http import HttpRequest, HttpResponse, JsonResponse, QueryDict
from django.shortcuts import render
from django.utils.cache import patch_vary_headers
from django.utils.functional import cached_property
from django.utils.html import conditional_escape, format_html
from django.utils.safestring import SafeString

from portal.pages import formatting, text, verdicts

EXPORT_ROWS = 20_000
PAGE_ROWS = 100
FORMATS = ("csv", "json")


@dataclass(frozen=True, slots=True)
class Column:
    """One column. ``key`` names it in exports and in ``?sort=``; ``order`` is the database expression it sorts by.

    ``value`` reads the raw value (exported unrounded); ``show`` turns (value, row) into what is seen; ``link`` gives
    an address or None. ``numeric`` aligns to the end with tabular figures. ``term`` is an anchor of the glossary.
    ``css`` with ``least`` in it leaves the column out of narrow windows.
    """

    key: str
    title: str
    value: Callable[[Any], Any]
    show: Callable[[Any, Any], str] | None = None
    link: Callable[[Any], str | None] | None = None
    numeric: bool = False
    order: str | None = None
    term: str = ""
    css: str = ""
    export: bool = True
    visible: bool = True

    def cell(self, row: Any) -> SafeString:
        value = self.value(row)
        shown = self.show(value, row) if self.show else default_show(value)
        if self.link and (href := self.link(row)):
            shown = format_html('<a href="{}">{}</a>', href, shown)
        return conditional_escape(shown)

    @property
    def cell_class(self) -> str:
        return f"{'num ' if self.numeric else ''}{self.css}".strip()


def default_show(value: Any) -> str:
    """How a value is shown when its column says nothing about it."""
    if value is None or value == "":
        return formatting.NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return formatting.significant(value)
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, datetime):
        return when(value)
    return text.label(value)


def when(value: datetime | None) -> SafeString | str:
    """A moment in UTC, to the minute, with the second on hover."""
    if value is None:
        return formatting.NOTHING
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        value.isoformat(timespec="seconds"), f"{value:%Y-%m-%d %H:%M:%S} UTC", f"{value:%Y-%m-%d %H:%M}",
    )


# Ready ways to show a value, as `show` wants them.
def microseconds(value: Any, _row: Any) -> str:
    return formatting.significant(value)


def score(value: Any, _row: Any) -> str:
    return formatting.score(value)


def times(value: Any, _row: Any) -> str:
    return formatting.times(value)


def percent(value: Any, _row: Any) -> str:
    return formatting.percent(value)


def badge(value: Any, _row: Any) -> str:
    return verdicts.badge(value or "none")


def sandbox(value: Any, _row: Any) -> str:
    return verdicts.sandbox(text.label(value, 40)) if value else formatting.NOTHING


def code(value: Any, _row: Any) -> str:
    return format_html("<code>{}</code>", text.label(value)) if value else formatting.NOTHING


def clamped(value: Any) -> SafeString:
    """A long text in at most two lines, the rest on hover."""
    said = text.label(value, 400)
    return format_html('<span class="clamped" title="{}">{}</span>', said, text.label(said, 160))


def short_commit(value: Any, _row: Any) -> str:
    return format_html('<code title="{}">{}</code>', value, str(value)[:10]) if value else formatting.NOTHING


def axes(value: Any, _row: Any) -> str:
    return format_html('<span class="axes">{}</span>', text.label(formatting.axes(value)) or "all fixed")


@dataclass
class Table:
    """Rows under columns, with a caption, a page of them, and the words for when there are none.

    ``name`` is the file name of the export and, with several tables on a page, the value of ``?table=``.
    """

    name: str
    caption: str
    columns: Sequence[Column]
    rows: Any
    empty: str = "Nothing here yet."
    sort: str = ""
    page: Page | None = None
    query: QueryDict | None = None
    caption_hidden: bool = False
    sortable: bool = field(default=False)
    row_class: Callable[[Any], str] | None = None
    at_most: int | None = None
    compact: bool = False
    page_key: str = "page"
    """The parameter that chooses the page: another for each table of a page that has more than one."""

    @property
    def shown_columns(self) -> list[Column]:
        """The columns on the page; the others are in exports only."""
        return [column for column in self.columns if column.visible]

    @cached_property
    def head(self) -> list[dict[str, Any]]:
        """What the header row needs: title, class, and where a click on it sorts to."""
        cells = []
        for column in self.shown_columns:
            ascending, descending = self.sort == column.key, self.sort == f"-{column.key}"
            target = None
            if self.sortable and column.order is not None:
                query = self.query.copy() if self.query is not None else QueryDict(mutable=True)
                query.pop("page", None)
                # The first click on a number shows the largest first: that is what one looks for.
                first, second = (f"-{column.key}", column.key) if column.numeric else (column.key, f"-{column.key}")
                query["sort"] = second if self.sort == first else first
                target = f"?{query.urlencode()}"
            cells.append({
                "column": column, "target": target,
                "aria": "ascending" if ascending else "descending" if descending else "",
                "mark": "▲" if ascending else "▼" if descending else "",
            })
        return cells

    @cached_property
    def visible(self) -> list[Any]:
        if self.page is not None:
            return list(self.page.object_list)
        return list(self.rows if self.at_most is None else self.rows[: self.at_most])

    @property
    def previous_url(self) -> str:
        return self._page_url(self.page.previous_page_number()) if self.page and self.page.has_previous() else ""

    @property
    def next_url(self) -> str:
        return self._page_url(self.page.next_page_number()) if self.page and self.page.has_next() else ""

    def _page_url(self, number: int) -> str:
        query = self.query.copy() if self.query is not None else QueryDict(mutable=True)
        query.pop("live", None)
        query[self.page_key] = str(number)
        return f"?{query.urlencode()}" + ("" if self.page_key == "page" else f"#table-{self.name}")

    @property
    def left_out(self) -> int:
        """How many rows the page does not show though it has no pages (``at_most``); exports have them."""
        return 0 if self.page is not None or self.at_most is None else max(0, len(self.rows) - self.at_most)

    @cached_property
    def body(self) -> list[dict[str, Any]]:
        return [
            {
                "css": self.row_class(row) if self.row_class else "",
                "cells": [(column.cell_class, column.cell(row)) for column in self.shown_columns],
            }
            for row in self.visible
        ]

    def exported(self) -> Iterable[dict[str, Any]]:
        """Raw values by key, every page, at most EXPORT_ROWS rows."""
        columns = [column for column in self.columns if column.export]
        for row in self.rows[:EXPORT_ROWS]:
            yield {column.key: column.value(row) for column in columns}


def sorted_rows(rows: Iterable[Any], columns: Sequence[Column], sort: str) -> list[Any]:
    """Rows in memory by ``?sort=key`` or ``-key``; rows without the value come last either way."""
    by_key = {column.key: column for column in columns if column.order is not None}
    column = by_key.get(sort.lstrip("-"))
    rows = list(rows)
    if column is None:
        return rows
    known = [(value, row) for row in rows if (value := column.value(row)) not in (None, "")]
    unknown = [row for row in rows if column.value(row) in (None, "")]
    known.sort(key=lambda pair: pair[0], reverse=sort.startswith("-"))
    return [row for _, row in known] + unknown


def paginated(request: HttpRequest, rows: Any, per_page: int = PAGE_ROWS, key: str = "page") -> Page:
    """The page that ``?page=`` asks for; a wrong number gives the nearest one."""
    return Paginator(rows, per_page).get_page(request.GET.get(key))


def _safe_csv(value: Any) -> Any:
    # A spreadsheet would run a cell that begins like a formula.
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return "'" + value
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, dict | list):
        return formatting.axes(value) if isinstance(value, dict) else " ".join(map(str, value))
    return value


def export(table: Table, wanted: str) -> HttpResponse:
    """The table as a download: ``csv`` with a header line, or ``json`` with its columns named."""
    columns = [column for column in table.columns if column.export]
    if wanted == "json":
        return JsonResponse({
            "table": table.name,
            "columns": [{"key": column.key, "title": column.title} for column in columns],
            "rows": list(table.exported()),
        })
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow([column.key for column in columns])
    for row in table.exported():
        writer.writerow([_safe_csv(row[column.key]) for column in columns])
    response = HttpResponse(buffer.getvalue(), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{table.name}.csv"'
    return response


def respond(
    request: HttpRequest, template: str, context: dict[str, Any], *tables: Table, fragment: str = ""
) -> HttpResponse:
    """The page, or with ``?format=csv|json`` the table that ``?table=`` names (the first when it names none).

    ``fragment`` is the template for htmx's polling of a part of the page.
    """
    wanted = request.GET.get("format", "")
    if wanted in FORMATS and tables:
        named = {table.name: table for table in tables}
        return export(named.get(request.GET.get("table", ""), tables[0]), wanted)
    if fragment and request.headers.get("HX-Request"):
        template = fragment
    response = render(request, template, context)
    if fragment:
        patch_vary_headers(response, ["HX-Request"])
    return response
