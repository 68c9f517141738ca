"""The judge as a process of its own: one JSON request a line on stdin, JSON lines back on a private descriptor.

Started by service.JudgeService; stays up between evaluations so that torch and the device context stay warm. Ends when
stdin ends, so that no judge outlives the worker that asked for it (its runners die with it).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from agentcore.importing import kept_for_good
from agentcore.judge.ahead import device_ahead
from agentcore.judge.request import EvaluationRequest
from agentcore.judge.result import EvaluationResult
from agentcore.vocabulary import HardwareName, Language

Answer = Callable[[EvaluationRequest, dict[str, Any] | None], EvaluationResult]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m agentcore.judge.serve")
    parser.add_argument("--hardware", type=HardwareName, required=True)
    parser.add_argument("--cache-dir", type=Path, required=True)
    parser.add_argument("--sandbox", default="auto")
    parser.add_argument("--answer-fd", type=int, required=True)
    parser.add_argument("--compile-only", action="store_true", help="needs no device, and measures nothing")
    arguments = parser.parse_args()
    os.set_inheritable(arguments.answer_fd, False)
    answers = os.fdopen(arguments.answer_fd, "w", buffering=1)
    requests: SimpleQueue[dict[str, Any]] = SimpleQueue()
    # Evaluations run in the main thread, because a runner dies with the thread that started it; stdin has its own.
    threading.Thread(target=_read_requests, args=(requests,), daemon=True).start()

    with kept_for_good():
        from agentcore.problems import load_problem
        from agentcore.sanitizer.evaluate import sanitize

        judge = _compiler() if arguments.compile_only else _judge(arguments.hardware, arguments.cache_dir)
    answers.write(json.dumps({"op": "ready"}) + "\n")
    while True:
        request = requests.get()

        def progress(text: str) -> None:
            answers.write(json.dumps({"op": "progress", "text": text}) + "\n")

        try:
            wanted = EvaluationRequest(
                problem=load_problem(Path(request["problem_dir"])),
                kernel_dir=Path(request["kernel_dir"]),
                language=Language(request["language"]),
                hardware=arguments.hardware,
                cache_dir=arguments.cache_dir,
                sandbox=arguments.sandbox,
                progress=progress,
                **request.get("options", {}),
            )
            result = sanitize(wanted) if request.get("sanitize") else judge(wanted, request.get("against"))
            answer = {"op": "result", "result": result.model_dump(mode="json")}
        except Exception as error:
            traceback.print_exc()
            answer = {"op": "failed", "message": f"{type(error).__name__}: {error}"[:4000]}
        answers.write(json.dumps(answer) + "\n")


def _judge(hardware: HardwareName, cache_dir: Path) -> Answer:
    """Judges a kernel, or two of them in turn, on a device of this host."""
    with device_ahead(hardware, cache_dir):
        from agentcore.judge.evaluate import Judge
        from agentcore.judge.paired import compare_in_turn

    judge = Judge(hardware, cache_dir)

    def answer(wanted: EvaluationRequest, other: dict[str, Any] | None) -> EvaluationResult:
        if other is None:
            return judge.evaluate(wanted)
        earlier = replace(wanted, kernel_dir=Path(other["kernel_dir"]), language=Language(other["language"]))
        return compare_in_turn(judge, earlier, wanted, other["rounds"], budget_s=other["budget_s"])

    return answer


def _compiler() -> Answer:
    """Compiles a kernel; needs no device, and neither imports torch."""
    from agentcore.judge.compile_only import compile_only

    return lambda wanted, _other: compile_only(wanted)


def _read_requests(requests: SimpleQueue[dict[str, Any]]) -> None:
    for line in sys.stdin:
        requests.put(json.loads(line))
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
