"""One look for every verdict and state: a word, a symbol and a plot marker of the same shape, a colour by class.

Colour never carries the meaning alone; the symbol in a badge is the marker in a plot.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.html import format_html
from django.utils.safestring import SafeString

from agentcore.vocabulary import Verdict
from portal.devices import standing


@dataclass(frozen=True, slots=True)
class Look:
    """``tone`` is a CSS class and the name of a custom property; ``marker`` is Plotly's name of the symbol."""

    word: str
    symbol: str
    marker: str
    tone: str
    meaning: str


VERDICTS: dict[str, Look] = {
    Verdict.PASSED: Look("passed", "●", "circle", "good", "right on every workload, and its times count"),
    Verdict.COMPILED: Look(
        "compiled", "◇", "diamond-open", "idle", "compiled only, neither run nor measured: no device of its hardware "
        "was there"
    ),
    Verdict.CLEAN: Look("clean", "□", "square-open", "good", "looked at by sanitizers that found no error"),
    Verdict.FINDINGS: Look("findings", "◈", "diamond-x", "warn", "looked at by sanitizers that found errors"),
    Verdict.COMPILE_ERROR: Look("compile error", "■", "square", "bad", "the compiler refused it"),
    Verdict.RUNTIME_ERROR: Look("runtime error", "▼", "triangle-down", "bad", "it crashed or returned an error"),
    Verdict.TIMEOUT: Look("timeout", "◆", "diamond", "warn", "a build, load or call passed its limit"),
    Verdict.INCORRECT: Look("incorrect", "✕", "x", "bad", "an output disagrees with the reference"),
    Verdict.REWARD_HACK: Look("reward hack", "▲", "triangle-up", "hack", "it tried to look faster than it is"),
    Verdict.FASTER_THAN_LIGHT: Look(
        "faster than light", "★", "star", "hack", "a time below the bound: a person decides whether bound or kernel "
        "is wrong"
    ),
    Verdict.CLOCK_MISMATCH: Look(
        "clock mismatch", "⋈", "bowtie", "hack", "the runner's clock disagrees with the judge's"
    ),
    Verdict.INFRA_ERROR: Look("infra error", "○", "circle-open", "idle", "the machinery failed, not the kernel"),
}

STATES: dict[str, Look] = {
    "queued": Look("queued", "◌", "circle-open-dot", "idle", "waits for a device, or for its paused campaign"),
    "running": Look("running", "◐", "circle-open-dot", "busy", "is being built or measured"),
    "done": Look("done", "●", "circle", "idle", "has its result"),
    "duplicate": Look("duplicate", "≡", "line-ew-open", "idle", "the same kernel was measured before"),
    "cancelled": Look("cancelled", "⊘", "circle-x-open", "idle", "was withdrawn"),
    "none": Look("not evaluated", "·", "circle-open", "idle", "no evaluation was asked for"),
}

CHECKS: dict[str, Look] = {
    "pass": Look("pass", "●", "circle", "good", ""),
    "fail": Look("fail", "✕", "x", "bad", ""),
    "skip": Look("skip", "○", "circle-open", "idle", ""),
}

DECISIONS: dict[str, Look] = {
    "approved": Look("approved", "●", "circle", "good", ""),
    "rejected": Look("rejected", "✕", "x", "bad", ""),
    "comment": Look("comment", "¶", "circle-open", "idle", ""),
}

CAMPAIGN_STATES: dict[str, Look] = {
    "active": Look("active", "◐", "circle", "busy", ""),
    "paused": Look("paused", "‖", "circle", "warn", ""),
    "finished": Look("finished", "●", "circle", "idle", ""),
}

CHANGES: dict[str, Look] = {
    "improved": Look("improved", "↑", "triangle-up", "good", "faster by more than the noise of both measurements"),
    "regressed": Look("regressed", "↓", "triangle-down", "bad", "slower by more than the noise of both measurements"),
    "unproven": Look("unproven", "≈", "circle-open", "idle", "the difference lies within the noise"),
    "incomparable": Look("incomparable", "≠", "x-open", "idle", "the two measurements say nothing about one another"),
}
SELFTESTS: dict[str, Look] = {
    standing.PASSED: Look(standing.PASSED, "●", "circle", "good", "every known cheat refused, honest kernels passed"),
    standing.FAILED: Look(standing.FAILED, "✕", "x", "bad", "a cheat was accepted, or honest work refused"),
    standing.OUTDATED: Look(standing.OUTDATED, "◌", "circle-open", "warn", "passed, but with another harness version"),
    standing.NEVER: Look(standing.NEVER, "▲", "triangle-up", "warn", "nobody knows whether its judge refuses cheats"),
}

SANITIZERS: dict[str, Look] = {
    "error": Look("error", "✕", "x", "bad", "a fault in the kernel"),
    "warning": Look("warning", "▲", "triangle-up", "warn", "possibly intended; no obstacle to a merge"),
    "skipped": Look("skipped", "○", "circle-open", "idle", "the tool cannot look at this kernel"),
    "crashed": Look("crashed", "▼", "triangle-down", "bad", "the kernel failed, and no finding says why"),
    "failed": Look("failed", "⊘", "circle-x-open", "idle", "the tool itself did not work"),
}

EARLIER = "earlier version"
VERSIONS: dict[str, Look] = {
    EARLIER: Look(EARLIER, "◷", "circle-open", "warn", "measured on an earlier version of the problem: kept as it was "
                  "measured, and no longer compared with others"),
}

UNCONFINED = "no sandbox"
SANDBOXES: dict[str, Look] = {
    UNCONFINED: Look(UNCONFINED, "⚠", "x", "bad", "kernels ran unconfined: nothing measured so is believed or merged"),
}

_ALL = {
    **SANDBOXES, **VERSIONS, **SANITIZERS, **SELFTESTS, **STATES, **CHANGES, **CHECKS, **DECISIONS, **CAMPAIGN_STATES,
    **{str(verdict): shown for verdict, shown in VERDICTS.items()},
}


def look(name: str) -> Look:
    """The look of a verdict, a state, a check status or a decision; an unknown word is shown as it is."""
    return _ALL.get(name) or Look(name[:40] or "not evaluated", "·", "circle-open", "idle", "")


def sandbox(kind: str) -> SafeString | str:
    """A sandbox's kind as it is; that there was none, in red and in words."""
    return badge(UNCONFINED) if kind == "none" else kind


def badge(name: str) -> SafeString:
    """The badge: symbol and word, coloured by tone, its meaning on hover."""
    shown = look(name)
    return format_html(
        '<span class="badge tone-{}"{}><span class="badge-symbol" aria-hidden="true">{}</span>{}</span>',
        shown.tone, format_html(' title="{}"', shown.meaning) if shown.meaning else "", shown.symbol, shown.word,
    )
