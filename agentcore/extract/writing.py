"""Writes one candidate as a problem directory: definition, reference, workloads, held-out shapes, brief."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Node

from agentcore.extract.candidates import AxisValues, Candidate
from agentcore.extract.capture import Agreement, Sample
from agentcore.extract.code import reference_source
from agentcore.extract.content import Content, contents, generator_source
from agentcore.extract.heldout import held_out
from agentcore.extract.shapes import tensor_sizes
from agentcore.extract.tolerance import Measured, measure
from agentcore.problems import Problem, Workload, load_problem
from agentcore.problems.tensors import InputFactory, input_specs, output_specs

_NAMESPACE = uuid.UUID("6f1d2a52-5a0e-4d57-8f7c-2f5f3f0f7a11")
BLOBS = "inputs.safetensors"
_LIMITS = {"max_atol", "max_rtol", "required_matched_ratio"}


@dataclass(slots=True)
class Written:
    """A candidate on disk: the loaded problem, and how often each call meets each of its workloads."""

    candidate: Candidate
    problem: Problem
    calls: dict[str, dict[int, int]]
    measured: Measured
    agreement: Agreement
    notes: list[str] = field(default_factory=list)


def write(
    candidate: Candidate, root: Path, model: str, agreement: Agreement, samples: Mapping[int, list[Sample]]
) -> Written:
    """Write ``root/<name>`` and load it again. Raises ProblemError where what was written does not load or run."""
    directory = root / candidate.name
    directory.mkdir(parents=True)
    made = contents(candidate, samples)
    docstring = f"Extracted from {model}: {', '.join(candidate.operators)}."
    source = reference_source(
        candidate.found, candidate.names, candidate.axes, _cut(docstring), generator_source(candidate, made)
    )
    (directory / "reference.py").write_text(source, "utf-8")
    custom = any(content.source["type"] == "custom" for content in made)
    (directory / "definition.json").write_text(_json(_definition(candidate, model, made, custom)), "utf-8")
    seen = candidate.seen()
    calls: dict[str, dict[int, int]] = {}
    lines: list[dict[str, Any]] = []
    blobs: dict[str, torch.Tensor] = {}
    for values, counts in seen.items():
        number = min(counts)
        line, kept = _workload(candidate, values, made, number)
        lines.append(line)
        blobs |= kept
        calls[line["uuid"]] = dict(counts)
    if blobs:
        from safetensors.torch import save_file

        save_file(blobs, directory / BLOBS)
    _write_lines(directory / "workload.jsonl", lines)
    problem = load_problem(directory)
    factory = InputFactory(problem, "cpu")
    notes: list[str] = []
    hidden = _held_out_lines(candidate, directory, problem, factory, made, [dict(values) for values in seen], notes)
    measured = measure(problem, [*problem.workloads, *map(Workload.model_validate, hidden)], factory)
    for line in (*lines, *hidden):
        line["tolerance"] = measured.tolerances[line["uuid"]].model_dump(include=_LIMITS)
    _write_lines(directory / "workload.jsonl", lines)
    if hidden:
        _write_lines(directory / "heldout.jsonl", hidden)
    strided = [n for n, s in zip(candidate.input_names, _first(samples), strict=False) if s.strided]
    if strided:
        notes.append(f"{', '.join(strided)}: dense here, strided in the model")
    if measured.zeros_pass > 0.5:
        notes.append(f"zeros would be within the tolerance for {measured.zeros_pass:.0%} of an output")
    brief = _brief(candidate, model, made, measured, agreement, notes)
    (directory / "README.md").write_text(brief, "utf-8")
    return Written(candidate, load_problem(directory), calls, measured, agreement, notes)


def _first(samples: Mapping[int, list[Sample]]) -> list[Sample]:
    return next(iter(samples.values()), [])


def _definition(candidate: Candidate, model: str, made: Sequence[Content], custom: bool) -> dict[str, Any]:
    used: set[int] = set()
    inputs = {
        candidate.names[node]: _spec(candidate, node, used) | {"description": _origin(candidate, node)}
        for node in candidate.found.inputs
    }
    outputs = {candidate.names[node]: _spec(candidate, node, used) for node in candidate.found.outputs}
    axes: dict[str, Any] = {name: {"type": "var"} for name in candidate.axes.values()}
    axes |= {name: {"type": "const", "value": size} for size, name in candidate.sizes.items() if size in used}
    return {
        "name": candidate.name,
        "description": f"{', '.join(candidate.operators)}: {len(candidate.occurrences)} times in a forward of {model}.",
        "tags": ["extracted", re.sub(r"[^a-z0-9-]+", "-", model.lower())],
        "axes": axes,
        "custom_inputs_entrypoint": "make_inputs" if custom else None,
        "inputs": inputs,
        "outputs": outputs,
    }


def _spec(candidate: Candidate, node: Node, used: set[int]) -> dict[str, Any]:
    shape: list[int | str] = []
    for size in tensor_sizes(node):
        expressed = candidate.found.axes.express(size)
        if isinstance(expressed, int):
            name = candidate.sizes.get(expressed)
            if name is not None:
                used.add(expressed)
            shape.append(name if name is not None else expressed)
        else:
            shape.append(re.sub(r"\ba\d+\b", lambda m: candidate.axes[m.group()], expressed))
    return {"shape": shape, "dtype": str(node.meta["val"].dtype).removeprefix("torch.")}


def _origin(candidate: Candidate, node: Node) -> str:
    leaf = candidate.exported.leaves.get(node)
    if leaf is None:
        return "Computed before in the model"
    return {"argument": "An argument of the model"}.get(leaf.kind, f"The {leaf.kind} {leaf.name}")


def _workload(
    candidate: Candidate, values: AxisValues, made: Sequence[Content], number: int | None
) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """A workload line (``number`` is the call whose contents it takes, None for a held-out one), and its blobs."""
    inputs: dict[str, Any] = {}
    blobs: dict[str, torch.Tensor] = {}
    for name, content in zip(candidate.input_names, made, strict=True):
        source = dict(content.source)
        if content.tensors is not None:
            call = -1 if -1 in content.tensors else number
            assert call is not None
            key = name if call == -1 else f"{name}.{call}"
            source |= {"path": BLOBS, "tensor_key": key}
            blobs[key] = content.tensors[call].contiguous()
        inputs[name] = source
    text = f"{candidate.name} {values} {'held out' if number is None else ''}"
    line = {"uuid": str(uuid.uuid5(_NAMESPACE, text)), "axes": dict(values), "inputs": inputs}
    return line, blobs


def _held_out_lines(
    candidate: Candidate,
    directory: Path,
    problem: Problem,
    factory: InputFactory,
    made: Sequence[Content],
    seen: list[dict[str, int]],
    notes: list[str],
) -> list[dict[str, Any]]:
    if not candidate.axes:
        return []
    if any(content.tensors is not None and -1 not in content.tensors for content in made):
        notes.append("no held-out shapes: some inputs are the example calls' own")
        return []
    lines = []
    for values in held_out(seen):
        line, _ = _workload(candidate, tuple(values.items()), made, None)
        try:
            _runs(problem, Workload.model_validate(line), factory)
        except Exception as error:
            notes.append(f"not held out: {values}, where the reference fails ({type(error).__name__}: {error})"[:300])
            continue
        lines.append(line)
    if not held_out(seen):
        notes.append("no held-out shapes: no size lies between those of the example calls")
    return lines


def _runs(problem: Problem, workload: Workload, factory: InputFactory) -> None:
    """Raise where the reference does not work on the workload's shapes; contents are left out."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        specs = input_specs(problem, workload)
        outputs = factory.reference({n: torch.empty(shape or (), dtype=dtype) for n, (shape, dtype) in specs.items()})
    for name, (shape, _) in output_specs(problem, workload).items():
        if tuple(outputs[name].shape) != shape:
            raise ValueError(f"{name} has shape {tuple(outputs[name].shape)}, not {shape}")


def _write_lines(file: Path, lines: Sequence[dict[str, Any]]) -> None:
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")


def _json(value: Any) -> str:
    """Two levels deep one member a line, below that compact, as a person would lay it out."""
    text = []
    for key, member in value.items():
        if isinstance(member, dict) and member:
            inner = ",\n".join(f"    {json.dumps(k)}: {json.dumps(v)}" for k, v in member.items())
            text.append(f"  {json.dumps(key)}: {{\n{inner}\n  }}")
        else:
            text.append(f"  {json.dumps(key)}: {json.dumps(member)}")
    return "{\n" + ",\n".join(text) + "\n}\n"


def _range(values: Sequence[float]) -> str:
    low, high = f"{min(values):g}", f"{max(values):g}"
    return low if low == high else f"{low} to {high} by workload"


def _cut(text: str, limit: int = 110) -> str:
    return text if len(text) <= limit else text[: limit - 1].rstrip(", ") + "…"


def _brief(
    candidate: Candidate,
    model: str,
    made: Sequence[Content],
    measured: Measured,
    agreement: Agreement,
    notes: Sequence[str],
) -> str:
    places = [", ".join(o.modules) for o in candidate.occurrences]
    shown = [f"- `{place}`" for place in dict.fromkeys(places)][:12]
    if len(set(places)) > len(shown):
        shown.append(f"- and {len(set(places)) - len(shown)} more")
    rows = [
        f"| `{name}` | {_origin(candidate, node)} | {content.note} |"
        for name, node, content in zip(candidate.input_names, candidate.found.inputs, made, strict=True)
    ]
    atol = [t.max_atol for t in measured.tolerances.values()]
    rtol = max(t.max_rtol for t in measured.tolerances.values())
    basis = (
        f"the output dtype, and the reference's own error against double precision on {measured.workloads} workloads"
        f" (at most {measured.rounding_error:.2g})"
        if measured.workloads
        else "the output dtype alone; it was not measured"
    )
    lines = [
        f"# {candidate.name}",
        "",
        f"Extracted from {model}. It computes {', '.join(candidate.operators)}; `reference.py` says how.",
        "",
        f"Where it stands in the model ({len(candidate.occurrences)} times in a forward):",
        "",
        *shown,
        "",
        "| input | from | content |",
        "|---|---|---|",
        *rows,
        "",
        f"Reference against the model, on the tensors of the example calls: {agreement.summary()}.",
        f"Tolerance (absolute {_range(atol)}, relative {rtol:g}): from {basis}.",
    ]
    if notes:
        lines += ["", *(f"- {note}" for note in notes)]
    return "\n".join(lines) + "\n"



