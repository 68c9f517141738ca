"""What leaves the judge of a held-out shape: which check failed and what its maker can do, nothing of the shape.

The advice follows from the check's name alone: whatever a candidate did, it cannot put a word into it.
"""

from __future__ import annotations

import hashlib

from agentcore.judge.findings import deciding_check
from agentcore.judge.result import WorkloadResult
from agentcore.vocabulary import CheckName, CheckStatus

HELD_OUT = "on a held-out shape"
_OTHER_SIZES = (
    "try axis values that are not listed, above and below those that are: 1, odd ones, and ones that leave a rest at"
    " your tile and vector widths"
)
_ADVICE = {
    CheckName.LOADS: f"the first call failed; look for a limit of threads, blocks or memory, and {_OTHER_SIZES}",
    CheckName.RUNS: (
        "a call crashed or reported a failure; look for accesses past the end and for limits of threads, blocks or"
        f" shared memory, and {_OTHER_SIZES}"
    ),
    CheckName.IN_TIME: f"a call took too long; look for a loop or a wait that never ends, and {_OTHER_SIZES}",
    CheckName.INPUTS_INTACT: f"an input was written; look for stores past the end of a buffer, and {_OTHER_SIZES}",
    CheckName.OUTPUTS_WRITTEN: (
        f"part of an output was never written; look at the rest after the last full tile or vector, and {_OTHER_SIZES}"
    ),
    CheckName.GUARDS_INTACT: (
        f"bytes around an output were written; look for a missing bound in the last tile or vector, and {_OTHER_SIZES}"
    ),
    CheckName.MATCHES_REFERENCE: (
        "values are wrong though the listed shapes are right; look at the last tile or vector, at index types that"
        f" overflow and at sizes taken for constants, and {_OTHER_SIZES}"
    ),
    CheckName.QUIET_DEVICE: "something else used the device meanwhile; it is not the kernel's fault: judge it again",
}


def explained(check: CheckName) -> str:
    """What is said of a check that failed on a held-out shape."""
    advice = _ADVICE.get(check)
    return f"{HELD_OUT}: {advice}" if advice else HELD_OUT


def without_shape(result: WorkloadResult) -> WorkloadResult:
    """A held-out workload's result without what gives its shape away, and what the candidate said after seeing it.

    Names, axes, byte counts, indices in messages, return values and claims go; verdict, statuses and our clock stay.
    """
    checks = [
        check.model_copy(update={"message": explained(check.name) if check.status is CheckStatus.FAIL else ""})
        for check in result.checks
    ]
    deciding = deciding_check(result.checks)
    message = ""
    if result.message:
        message = f"{HELD_OUT}, {deciding} failed" + (f": {_ADVICE[deciding]}" if deciding in _ADVICE else "")
    return result.model_copy(update={
        "uuid": hashlib.sha256(result.uuid.encode()).hexdigest()[:32], "axes": {}, "message": message,
        "checks": checks, "bound": None, "claimed_latency_us": None, "matched_ratio": None,
        # A candidate sets its own errors, and could spell an axis with them.
        "max_abs_error": None, "max_rel_error": None, "samples_us": [], "calls": 0, "verified_calls": 0,
    })
