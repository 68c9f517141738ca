"""The safetensors files that workloads take inputs from: where they are, and whether they hold what they should.

Only headers are read here. Tensors are read by ``tensors``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from agentcore.problems.problem import Problem
from agentcore.problems.workload import SafetensorsInput, Workload

_LEVELS_ABOVE = 4
_MAX_HEADER_BYTES = 100_000_000  # the format's own limit
_DTYPES = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64", "F16": "float16",
    "BF16": "bfloat16", "F32": "float32", "F64": "float64", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0fnu", "F4": "float4_e2m1fn_x2",
}


def missing_blobs(problem: Problem) -> dict[str, list[str]]:
    """The workloads that cannot run because a safetensors file is absent: uuid → the files missing."""
    missing: dict[str, list[str]] = {}
    for workload in problem.all_workloads:
        paths = {source.path for _, source in _stored(workload)}
        absent = sorted(path for path in paths if find_blob(problem.root, path) is None)
        if absent:
            missing[workload.uuid] = absent
    return missing


def find_blob(root: Path, path: str) -> Path | None:
    """The safetensors file ``path`` names, looked for in the problem's directory and up to four above, then in those
    that ``KERNELYARD_BLOBS`` lists (as PATH lists directories), there also without its first parts; else None.

    Links are followed: a hub's cache consists of them.
    """
    relative = Path(path)
    if relative.is_absolute() or ".." in relative.parts:
        return None
    base = root.resolve()
    for parent in (base, *list(base.parents)[:_LEVELS_ABOVE]):
        candidate = parent / relative
        if _is_file(candidate):
            return candidate
    for folder in filter(None, os.environ.get("KERNELYARD_BLOBS", "").split(os.pathsep)):
        for start in range(len(relative.parts)):
            candidate = Path(folder).joinpath(*relative.parts[start:])
            if _is_file(candidate):
                return candidate
    return None


def _is_file(path: Path) -> bool:
    """A name that is too long, or leads through a directory that may not be entered, is that of no file either."""
    try:
        return path.is_file()
    except OSError:
        return False


def starts_like_safetensors(head: bytes) -> bool:
    """Whether the first nine bytes of a file may be those of a safetensors file: the header's length, a brace."""
    return len(head) >= 9 and 2 <= int.from_bytes(head[:8], "little") <= _MAX_HEADER_BYTES and head[8:9] == b"{"


def blob_files(problem: Problem) -> list[Path]:
    """Every safetensors file of ``problem`` that is there, links resolved."""
    found = {find_blob(problem.root, s.path) for workload in problem.all_workloads for _, s in _stored(workload)}
    return sorted({file.resolve() for file in found if file is not None})


def blob_faults(problem: Problem) -> list[str]:
    """What is wrong with the safetensors files that are there: unreadable, without the tensor, another shape or dtype.

    One message for each input of each workload, naming problem, workload, input and file.
    """
    from safetensors import SafetensorError, safe_open

    faults: list[str] = []
    headers: dict[Path, dict[str, tuple[str, tuple[int, ...]]] | str] = {}
    for workload in problem.all_workloads:
        for name, source in _stored(workload):
            file = find_blob(problem.root, source.path)
            if file is None:
                continue
            if file not in headers:
                try:
                    with safe_open(str(file), framework="np") as opened:
                        slices = {key: opened.get_slice(key) for key in opened.keys()}  # noqa: SIM118  not a mapping
                        headers[file] = {k: (str(s.get_dtype()), tuple(s.get_shape())) for k, s in slices.items()}
                except (SafetensorError, OSError) as error:
                    headers[file] = f"cannot be read: {error}"
            fault = _fault(problem, workload, name, source, headers[file])
            if fault:
                faults.append(f"{problem.root}: workload {workload.uuid}: inputs.{name}: {source.path} {fault}")
    return faults


def _fault(
    problem: Problem,
    workload: Workload,
    name: str,
    source: SafetensorsInput,
    header: dict[str, tuple[str, tuple[int, ...]]] | str,
) -> str:
    if isinstance(header, str):
        return header
    if source.tensor_key not in header:
        held = ", ".join(sorted(header)[:8])
        return f"holds no tensor {source.tensor_key!r}; it has {held or 'none'}"
    stored, shape = header[source.tensor_key]
    dtype = _DTYPES.get(stored, stored)
    definition = problem.definition
    spec = definition.inputs[name]
    wanted = definition.shape(spec, definition.axis_values(workload.axes))
    if (dtype, shape) != (spec.dtype, wanted):
        return f"holds {dtype} {shape}; the definition says {spec.dtype} {wanted}"
    return ""


def _stored(workload: Workload) -> Iterator[tuple[str, SafetensorsInput]]:
    for name, source in workload.inputs.items():
        if isinstance(source, SafetensorsInput):
            yield name, source
