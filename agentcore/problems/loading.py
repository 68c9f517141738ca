"""Read a problem's directory into one validated, immutable value.

A directory holds ``definition.json``, optionally ``reference.py`` (else the definition carries the source inline),
``workload.jsonl``, and optionally ``workload.cpu.jsonl``, ``heldout.jsonl``, ``official.json`` and ``README.md``.
Nothing here runs the reference or imports torch.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentcore.problems.definition import Definition
from agentcore.problems.documents import parse_json, read_text, validate
from agentcore.problems.errors import ExpressionError, ProblemError
from agentcore.problems.locate import line_of
from agentcore.problems.workload import CustomInput, SafetensorsInput, ScalarInput, Workload
from agentcore.vocabulary import NAME_PATTERN, HardwareName


@dataclass(frozen=True, slots=True)
class Problem:
    """A kernel to optimise, with everything the judge needs to know about it."""

    name: str
    definition: Definition
    reference: str = field(repr=False)
    workloads: tuple[Workload, ...] = field(repr=False)
    cpu_workloads: tuple[Workload, ...] = field(repr=False)
    heldout: tuple[Workload, ...] = field(repr=False)
    brief: str = field(repr=False)
    root: Path
    digest: str
    official: dict[str, Any] | None = field(repr=False, default=None)

    def workloads_for(self, hardware: HardwareName) -> tuple[Workload, ...]:
        """The workloads that are measured on ``hardware``: the CPU has its own list where the problem gives one."""
        return self.cpu_workloads if not hardware.is_gpu and self.cpu_workloads else self.workloads

    def heldout_for(self, hardware: HardwareName) -> tuple[Workload, ...]:
        """The held-out workloads for ``hardware``; for the CPU all of them where the problem has no CPU list."""
        if not hardware.is_gpu and not self.cpu_workloads:
            return self.heldout
        return tuple(w for w in self.heldout if (w.target == "cpu") != hardware.is_gpu)


def find_problems(root: Path) -> list[Path]:
    """Every directory at or below ``root`` that holds a ``definition.json``, sorted."""
    return sorted(path.parent for path in root.rglob("definition.json"))


def load_problem(path: Path) -> Problem:
    """Load and validate the problem in directory ``path``.

    Raises ProblemError naming file, line and field for anything missing or inconsistent. Safetensors files that are
    absent are no error: see :func:`missing_blobs`.
    """
    root = Path(path)
    definition_file = root / "definition.json"
    text = read_text(definition_file)
    definition = validate(Definition, parse_json(definition_file, text, 1), definition_file, text, 1)
    if not NAME_PATTERN.match(definition.name):
        raise ProblemError.at(
            definition_file,
            line_of(text, ["name"]),
            "name",
            f"{definition.name!r} must be lower-case letters, digits, '-' or '_' (at most 100)",
        )
    reference = _reference(root, definition, definition_file, text)
    workload_file = root / "workload.jsonl"
    if not workload_file.is_file():
        raise ProblemError.at(workload_file, None, "", "the file is missing; a problem needs at least one workload")
    workloads = _workloads(workload_file, definition, "gpu")
    if not workloads:
        raise ProblemError.at(workload_file, None, "", "holds no workload; write one JSON object per line")
    cpu_workloads = _workloads(root / "workload.cpu.jsonl", definition, "cpu")
    heldout = _workloads(root / "heldout.jsonl", definition, "gpu")
    _distinct_uuids(root, (*workloads, *cpu_workloads, *heldout))
    official_file, brief_file = root / "official.json", root / "README.md"
    official = parse_json(official_file, read_text(official_file), 1) if official_file.is_file() else None
    if official is not None and not isinstance(official, dict):
        raise ProblemError.at(official_file, 1, "", "must be a JSON object")
    return Problem(
        name=definition.name,
        definition=definition,
        reference=reference,
        workloads=workloads,
        cpu_workloads=cpu_workloads,
        heldout=heldout,
        brief=read_text(brief_file) if brief_file.is_file() else "",
        root=root,
        digest=_digest(definition, reference, workloads, cpu_workloads, heldout),
        official=official,
    )


def missing_blobs(problem: Problem) -> dict[str, list[str]]:
    """The workloads that cannot run because a safetensors file is absent: uuid → the files missing."""
    missing: dict[str, list[str]] = {}
    for workload in (*problem.workloads, *problem.cpu_workloads, *problem.heldout):
        paths = {s.path for s in workload.inputs.values() if isinstance(s, SafetensorsInput)}
        absent = sorted(path for path in paths if find_blob(problem.root, path) is None)
        if absent:
            missing[workload.uuid] = absent
    return missing


def find_blob(root: Path, path: str) -> Path | None:
    """The safetensors file ``path`` names, looked for in the problem's directory and up to four above; else None."""
    relative = Path(path)
    if relative.is_absolute() or ".." in relative.parts:
        return None
    base = root.resolve()
    for parent in (base, *list(base.parents)[:4]):
        candidate = parent / relative
        if candidate.is_file():
            return candidate
    return None


def _reference(root: Path, definition: Definition, definition_file: Path, text: str) -> str:
    beside = root / "reference.py"
    if beside.is_file():
        source, file, offset = read_text(beside), beside, 0
        if definition.reference not in (None, "", source):
            raise ProblemError.at(
                definition_file,
                line_of(text, ["reference"]),
                "reference",
                "differs from reference.py beside it; keep one of the two",
            )
    elif definition.reference:
        source, file, offset = definition.reference, definition_file, line_of(text, ["reference"])
    else:
        line = line_of(text, ["reference"])
        raise ProblemError.at(definition_file, line, "reference", "is missing, and there is no reference.py beside")

    def fail(line: int, message: str) -> ProblemError:
        # Inline source is one JSON line: name the line inside the source in the message instead.
        inside = f"reference, line {line}" if offset else ""
        return ProblemError.at(file, offset or line, inside, message)

    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        raise fail(line, f"is not Python: {getattr(error, 'msg', None) or error}") from None
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    for node in tree.body:
        match node:
            case ast.Assign(targets=targets):
                defined |= {target.id for target in targets if isinstance(target, ast.Name)}
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                defined |= {alias.asname or alias.name for alias in aliases}
            case _:
                pass
    if "run" not in defined:
        raise fail(1, "defines no run(...) at its top level")
    entry = definition.custom_inputs_entrypoint
    if entry is not None and entry not in defined:
        raise fail(1, f"defines no {entry}(...), which custom_inputs_entrypoint names")
    return source


def _workloads(file: Path, definition: Definition, default_target: str) -> tuple[Workload, ...]:
    if not file.is_file():
        return ()
    found: list[Workload] = []
    for number, line in enumerate(read_text(file).split("\n"), start=1):
        if not line.strip():
            continue
        workload = validate(Workload, parse_json(file, line, number), file, line, number)
        workload = workload.model_copy(
            update={"index": len(found), "target": workload.target or default_target}
        )
        _check_workload(file, number, definition, workload)
        found.append(workload)
    return tuple(found)


def _check_workload(file: Path, line: int, definition: Definition, workload: Workload) -> None:
    try:
        values = definition.axis_values(workload.axes)
    except ExpressionError as error:
        raise ProblemError.at(file, line, "axes", str(error)) from None
    for side, specs in (("inputs", definition.inputs), ("outputs", definition.outputs)):
        for name, spec in specs.items():
            try:
                definition.shape(spec, values)
            except ExpressionError as error:
                raise ProblemError.at(file, line, f"axes (for {side}.{name}.shape)", str(error)) from None
    unknown = workload.inputs.keys() - definition.inputs.keys()
    if unknown:
        raise ProblemError.at(file, line, "inputs", f"{', '.join(sorted(unknown))} is not an input of the definition")
    for name, spec in definition.inputs.items():
        source = workload.inputs.get(name)
        where = f"inputs.{name}"
        if source is None:
            raise ProblemError.at(file, line, where, "is missing; say where its content comes from")
        if isinstance(source, ScalarInput) and spec.shape:
            raise ProblemError.at(file, line, where, "is a tensor, so its source cannot be a scalar")
        if isinstance(source, CustomInput) and definition.custom_inputs_entrypoint is None:
            raise ProblemError.at(file, line, where, "is custom, but the definition has no custom_inputs_entrypoint")


def _distinct_uuids(root: Path, workloads: Iterable[Workload]) -> None:
    seen: set[str] = set()
    for workload in workloads:
        if workload.uuid in seen:
            raise ProblemError.at(root, None, "uuid", f"{workload.uuid} is used by two workloads")
        seen.add(workload.uuid)


def _digest(definition: Definition, reference: str, *lists: tuple[Workload, ...]) -> str:
    """One sha256 over what decides a result, independent of how the JSON was laid out."""
    content = {
        "definition": definition.model_dump(mode="json", exclude={"reference"}),
        "reference": reference,
        "lists": [[workload.model_dump(mode="json") for workload in workloads] for workloads in lists],
    }
    # Order matters: the order of inputs, outputs and axes is the kernel's ABI.
    return hashlib.sha256(json.dumps(content, ensure_ascii=True, separators=(",", ":")).encode()).hexdigest()
