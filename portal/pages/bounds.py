"""T_SOL of a problem's workloads as it was counted at import, before anybody attempted it: a table for one hardware."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Count
from django.http import HttpRequest

from agentcore.vocabulary import HardwareName
from portal.pages import formatting, listings, tables, text
from portal.pages.tables import Column, Table
from portal.problems.models import BoundCount, Problem, WorkloadBound

ROWS = 50


@dataclass(frozen=True, slots=True)
class Section:
    """``status`` says how counting stands, where that is not all well; ``assumptions`` are those of the rows shown."""

    hardware: str
    choice: list[str]
    table: Table | None
    status: str
    is_pending: bool
    host: str
    assumptions: list[str]
    rates: list[str]


def section(request: HttpRequest, problem: Problem, otherwise: str) -> Section:
    """For the hardware that ``?bounds=`` names, else ``otherwise``, else the first that there is. Four queries."""
    count = BoundCount.objects.filter(problem=problem).first()
    mine = WorkloadBound.objects.filter(workload__problem=problem, workload__is_current=True)
    known = {row["hardware"] for row in mine.order_by().values("hardware").annotate(n=Count("id"))}
    choice = [member.value for member in HardwareName if member.value in known]
    wanted = (request.GET.get("bounds", ""), otherwise, *choice)
    hardware = next((name for name in wanted if name in known), "")
    table, shown = None, []
    if hardware:
        rows = mine.filter(hardware=hardware).select_related("workload").order_by("workload__index", "id")
        page = tables.paginated(request, rows, ROWS, "bounds_page")
        shown = page.object_list = list(page.object_list)
        columns = listings.bound_columns(lambda row: row.record, lambda row: row.workload)
        columns.append(Column("trouble", "why there is none", lambda r: r.trouble,
                              lambda v, _: text.label(v, 300) or formatting.NOTHING, css="grow soft",
                              visible=any(row.trouble for row in shown)))
        columns.append(Column("uuid", "uuid", lambda r: r.workload.uuid, visible=False))
        table = Table("t_sol", f"T_SOL per workload on {hardware}", columns, rows, page=page, page_key="bounds_page",
                      query=request.GET, caption_hidden=True)
    records = [row.record for row in shown]
    return Section(
        hardware, choice, table, _status(count),
        is_pending=count is None or count.state in (BoundCount.State.PENDING, BoundCount.State.RUNNING),
        host=text.label(count.host, 80) if count else "",
        assumptions=listings.assumptions(records), rates=listings.rate_lines(records),
    )


def _status(count: BoundCount | None) -> str:
    state, said = (count.state, text.label(count.message, 300)) if count else (BoundCount.State.PENDING, "")
    if state == BoundCount.State.RUNNING:
        return "T_SOL is being counted now, in a sandbox."
    if state == BoundCount.State.PENDING:
        again = f" The last try ended with: {said}." if said else ""
        return f"T_SOL is not counted yet. Counting waits until the portal’s host is not timing any kernel.{again}"
    if state == BoundCount.State.FAILED:
        return f"T_SOL could not be counted: {said}. To try again: manage.py importproblems, with the problem’s path."
    return f"Not all of it could be counted: {said}." if said else ""
