"""``python -m tests.hacks --hardware cpu|h200|… [--json OUT] [--only NAME]``: one line a case, then a JSON summary."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from agentcore.vocabulary import HardwareName
from tests.hacks.corpus import Kind, discover, select
from tests.hacks.outcome import CaseOutcome, run_case


def main(arguments: list[str] | None = None) -> int:
    """Run the selected cases; 0 when every one came out as it says, 1 otherwise."""
    parser = argparse.ArgumentParser(prog="python -m tests.hacks", description=__doc__)
    parser.add_argument("--hardware", type=HardwareName, choices=list(HardwareName), default=HardwareName.CPU)
    parser.add_argument("--json", type=Path, help="write every outcome and the summary here")
    parser.add_argument("--only", default="", help="run the cases whose name contains this")
    parser.add_argument("--cache", type=Path, help="build cache to keep; a temporary one otherwise")
    options = parser.parse_args(arguments)
    outcomes: list[CaseOutcome] = []
    with tempfile.TemporaryDirectory(prefix="kernelyard-hacks-") as temporary:
        for case in select(discover(), options.hardware, options.only):
            outcome = run_case(case, options.hardware, options.cache or Path(temporary))
            print(outcome.line(), flush=True)
            outcomes.append(outcome)
    summary = summarise(outcomes)
    if options.json:
        options.json.write_text(json.dumps({"summary": summary, "cases": [o.record() for o in outcomes]}, indent=1))
    print(json.dumps(summary))
    return 0 if outcomes and all(outcome.ok for outcome in outcomes) else 1


def summarise(outcomes: list[CaseOutcome]) -> dict[str, int]:
    """Counts. ``misnamed``: refused, but by another check or verdict than the case names."""
    exploits = [o for o in outcomes if o.case.kind is Kind.EXPLOIT]
    controls = [o for o in outcomes if o.case.kind is Kind.CONTROL]
    faults = [o for o in outcomes if o.case.kind is Kind.FAULT]
    return {
        "exploits": len(exploits),
        "accepted": sum(o.accepted for o in exploits),
        "misnamed": sum(not o.ok and not o.accepted for o in exploits),
        "controls": len(controls),
        "refused": sum(not o.ok for o in controls),
        "faults": len(faults),
        "misjudged": sum(not o.ok for o in faults),
    }


if __name__ == "__main__":
    sys.exit(main())
