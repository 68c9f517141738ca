"""Problems made from a few lines of reference, and fixed CPU rates so that no test depends on the host's speed."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agentcore.bounds.cpu import CpuRates
from agentcore.problems import Problem, load_problem

Make = Callable[..., Problem]


@pytest.fixture
def make_problem(tmp_path: Path) -> Make:
    """``make_problem(body, inputs, outputs, workloads, tolerance)``: specs as ``name="dtype axis axis …"``."""

    def spec(text: str) -> dict[str, Any]:
        dtype, *shape = text.split()
        return {"dtype": dtype, "shape": shape}

    def make(
        body: str,
        inputs: dict[str, str],
        outputs: dict[str, str],
        workloads: list[dict[str, int]],
        tolerance: dict[str, float] | None = None,
        generator: str | None = None,
    ) -> Problem:
        root = tmp_path / f"problem{len(list(tmp_path.iterdir()))}"
        root.mkdir()
        parameters = ", ".join(inputs)
        source = f"import torch\nimport torch.nn.functional as F\n\ndef run({parameters}):\n    {body}\n"
        if generator is not None:
            source += f"\ndef get_inputs(axes, device):\n    {generator}\n"
        definition = {
            "name": "traced",
            "axes": {axis: {"type": "var"} for axis in workloads[0]},
            "inputs": {name: spec(text) for name, text in inputs.items()},
            "outputs": {name: spec(text) for name, text in outputs.items()},
            "reference": source,
        } | ({} if generator is None else {"custom_inputs_entrypoint": "get_inputs"})
        (root / "definition.json").write_text(json.dumps(definition))
        lines = [
            {
                "uuid": f"w{index}",
                "axes": axes,
                "inputs": {name: {"type": "custom" if generator else "random"} for name in inputs},
                "tolerance": tolerance,
            }
            for index, axes in enumerate(workloads)
        ]
        (root / "workload.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
        return load_problem(root)

    return make


@pytest.fixture
def cpu_rates() -> CpuRates:
    return CpuRates(
        cpu="test",
        threads=2,
        fp32_flops=5e11,
        bf16_flops=1e12,
        read_bytes={4 << 20: 2.5e11, 16 << 20: 2.4e11, 64 << 20: 1.8e11, 256 << 20: 8e10},
        measured_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


@pytest.fixture(scope="session")
def sample() -> Path:
    """The public sample of problems beside the repository, where there is one."""
    root = Path(__file__).resolve().parents[3] / "shared" / "sol-execbench-sample"
    if not root.is_dir():
        pytest.skip("the SOL-ExecBench sample is not beside this repository")
    return root


@pytest.fixture(scope="session")
def suite() -> list[Problem]:
    """Our own problems."""
    root = Path(__file__).resolve().parents[2] / "problems"
    return [load_problem(path.parent) for path in sorted(root.glob("*/definition.json"))]
