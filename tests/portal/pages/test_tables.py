"""One description of a table gives the same rows as HTML, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json

from django.http import QueryDict

from portal.pages import tables
from portal.pages.tables import Column, Table

COLUMNS = [
    Column("name", "name", lambda r: r["name"], order="name"),
    Column("time", "latency (µs)", lambda r: r["time"], tables.microseconds, numeric=True, order="time"),
]
ROWS = [{"name": "b", "time": 2.3456}, {"name": "a", "time": None}, {"name": "c", "time": 1.0}]


def names(sort: str) -> list[str]:
    return [row["name"] for row in tables.sorted_rows(ROWS, COLUMNS, sort)]


def test_rows_without_the_value_come_last_either_way() -> None:
    assert names("time") == ["c", "b", "a"]
    assert names("-time") == ["b", "c", "a"]


def test_an_unknown_sort_key_changes_nothing() -> None:
    assert names("nonsense") == ["b", "a", "c"]


def test_exports_carry_unrounded_values() -> None:
    table = Table("t", "T", COLUMNS, ROWS)
    answer = json.loads(tables.export(table, "json").content)
    assert answer["rows"][0] == {"name": "b", "time": 2.3456}
    rows = list(csv.DictReader(io.StringIO(tables.export(table, "csv").content.decode())))
    assert rows[0] == {"name": "b", "time": "2.3456"}
    assert rows[1]["time"] == ""


def test_a_csv_cell_never_begins_a_formula() -> None:
    table = Table("t", "T", COLUMNS[:1], [{"name": '=HYPERLINK("http://evil")'}, {"name": "-1+1"}])
    rows = list(csv.DictReader(io.StringIO(tables.export(table, "csv").content.decode())))
    assert [row["name"][0] for row in rows] == ["'", "'"]


def test_a_cell_is_escaped_and_its_link_too() -> None:
    column = Column("x", "x", lambda r: r, link=lambda r: f"/?q={r}")
    cell = column.cell('<script>"')
    assert "<script>" not in cell
    assert cell.count("&lt;script&gt;") == 2


def test_the_first_click_on_a_number_shows_the_largest_first_and_the_second_turns_it() -> None:
    first = Table("t", "T", COLUMNS, ROWS, sortable=True, query=QueryDict("page=3&q=x"))
    assert first.head[1]["target"] == "?q=x&sort=-time"
    second = Table("t", "T", COLUMNS, ROWS, sortable=True, sort="-time", query=QueryDict("q=x&sort=-time"))
    assert second.head[1]["target"] == "?q=x&sort=time"
    assert second.head[1]["aria"] == "descending"
    assert first.head[0]["target"] == "?q=x&sort=name"


def test_a_bounded_table_says_how_many_rows_it_leaves_out() -> None:
    table = Table("t", "T", COLUMNS, ROWS, at_most=2)
    assert len(table.body) == 2
    assert table.left_out == 1
    assert len(list(table.exported())) == 3
