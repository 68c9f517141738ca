"""Two attempts, or two evaluations, side by side: their times by the judge's rule, and what changed between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse

from portal.attempts.models import Attempt
from portal.evaluations import comparisons, scores
from portal.evaluations.models import Evaluation
from portal.pages import proofs, sources, tables, text, versus
from portal.pages.tables import Table


def compare(request: HttpRequest) -> HttpResponse:
    """?a= the earlier and ?b= the later: attempts by commit (a unique beginning will do), or evaluations as ``#12``."""
    sides = {side: _named(request.GET.get(side, "")) for side in ("a", "b")}
    a, b = sides["a"], sides["b"]
    context: dict[str, Any] = {
        "title": "Compare two attempts", "a": a.attempt, "b": b.attempt,
        "asked": {side: text.label(request.GET.get(side, ""), 60) for side in sides},
        "troubles": [found.trouble for found in sides.values() if found.trouble],
    }
    exported: list[Table] = []
    old, new = a.attempt, b.attempt
    if old is not None and new is not None:
        in_turn = [
            proof for proof in proofs.of_kernel(new)
            if proof.old is not None
            and {proof.new.kernel_tree, proof.old.kernel_tree} == {old.kernel_tree, new.kernel_tree}
        ]
        context["proofs"] = proofs.table(in_turn, None, own=new.kernel_tree, with_hardware=True)
        hardware = request.GET.get("hardware") or None
        before = a.evaluation or scores.latest_evaluation(old, hardware)
        after = b.evaluation or scores.latest_evaluation(new, hardware or (before.hardware if before else None))
        context |= {"before": before, "after": after}
        if before is not None and after is not None:
            comparison = comparisons.compare(after, before)
            context["comparison"] = comparison
            context["table"] = versus.workloads_table(comparison)
            context["verdict"] = versus.verdict_of(comparison)
            context["notes"] = [text.label(note, 200) for note in comparison.notes]
            exported.append(context["table"])
        layout = request.GET.get("diff", "unified")
        context["layout"] = layout if layout in sources.DIFF_LAYOUTS else "unified"
        if (old.problem_id, old.language) == (new.problem_id, new.language):
            context["diff"] = sources.kernel_diff(old.commit, new)
    exported += [context["proofs"]] if context.get("proofs") else []
    return tables.respond(request, "attempts/compare.html", context, *exported)


@dataclass(frozen=True, slots=True)
class _Side:
    """What one side of the page names: an attempt, one evaluation of it where that was asked for, or the trouble."""

    attempt: Attempt | None = None
    evaluation: Evaluation | None = None
    trouble: str = ""


def _named(asked: str) -> _Side:
    asked = asked.strip().lower()
    if not asked:
        return _Side()
    if asked.startswith("#"):
        return _by_number(asked[1:])
    if len(asked) < 6 or any(character not in "0123456789abcdef" for character in asked):
        return _Side(trouble=f"“{text.label(asked, 40)}” is no commit (give six hexadecimal digits or more) and no "
                             "evaluation (#12).")
    found = list(Attempt.objects.select_related("problem", "agent").filter(commit__startswith=asked)[:2])
    if len(found) != 1:
        return _Side(trouble=f"{'More than one' if found else 'No'} attempt has a commit beginning with {asked[:40]}.")
    return _Side(found[0])


def _by_number(number: str) -> _Side:
    row = None
    if number.isdecimal() and len(number) <= 18:
        row = Evaluation.objects.filter(pk=int(number)).select_related(
            "attempt__problem", "attempt__agent", "duplicate_of__attempt__problem"
        ).defer("result", "duplicate_of__result").first()
    if row is None:
        return _Side(trouble=f"There is no evaluation #{text.label(number, 20)}.")
    if row.kind != Evaluation.Kind.MEASURE:
        return _Side(trouble=f"Evaluation #{row.pk} measured nothing that could be compared: its kind is {row.kind}.")
    return _Side(row.attempt, row.duplicate_of or row)
