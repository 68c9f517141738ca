"""The whole way from a model's file to ranked problem directories."""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from agentcore.bounds.cpu import CalibrationError, CpuRates, calibrate_cpu, default_cache_dir
from agentcore.extract.candidates import Candidate, Left, find_candidates
from agentcore.extract.capture import Agreement, Captured, run_all
from agentcore.extract.errors import ExtractError
from agentcore.extract.export import export
from agentcore.extract.partition import MAX_OPERATORS
from agentcore.extract.ranking import rank
from agentcore.extract.report import write_report
from agentcore.extract.result import Extraction
from agentcore.extract.shapes import tensor_sizes
from agentcore.extract.source import Examples, load_examples, load_model
from agentcore.extract.writing import Written, write
from agentcore.vocabulary import HardwareName

DEFAULT_MAX_BYTES = 16 << 30


@dataclass(frozen=True, slots=True)
class Options:
    """What to extract and where to. ``output`` None is ``<model>-problems`` in the working directory."""

    model: str
    example: str
    output: Path | None = None
    hardware: tuple[HardwareName, ...] = (HardwareName.H200, HardwareName.B200)
    max_operators: int = MAX_OPERATORS
    max_bytes: int = DEFAULT_MAX_BYTES
    run: bool = True


def extract(options: Options, progress: Callable[[str], None] = lambda text: None) -> Extraction:
    """Extract, write and rank. Raises ExtractError where the model, its examples or the output cannot be used."""
    if options.max_operators < 1:
        raise ExtractError("--max-operators must be at least 1")
    model, name = load_model(options.model)
    output = options.output or Path(f"{_slug(name)}-problems")
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise ExtractError(f"{output} exists and is not empty; name another --output or remove it")
    examples = load_examples(options.example, model)
    notes: list[str] = []
    exports = export(model, examples, notes)
    progress(f"exported: {sum(len(e.graph.graph.nodes) for e in exports)} nodes")
    candidates, left = find_candidates(exports, _slug(name), examples.sizes, options.max_operators)
    candidates = _not_too_large(candidates, options.max_bytes, left)
    if not candidates:
        reasons = "; ".join(dict.fromkeys(e.reason for e in left)) or "it computes nothing"
        raise ExtractError(f"{options.model}: no part of the model can become a problem: {reasons}")
    progress(f"{len(candidates)} candidates for {sum(len(c.occurrences) for c in candidates)} places")
    run = options.run and _has_content(model, examples, notes)
    captured = run_all(model, exports, candidates) if run else Captured()
    if run:
        progress("every reference has run beside the model")
    written = _write_all(candidates, output, name, captured, left, progress)
    result = Extraction(
        model=name,
        output=output,
        shapes=_shapes(examples),
        parameters=sum(p.numel() for p in model.parameters()),
        written=written,
        left=left,
        whole=captured.whole,
        was_run=run,
        notes=notes,
    )
    for hardware in options.hardware:
        result.rankings[hardware.value] = rank(written, hardware, list(result.shapes), _cpu_rates(hardware))
    write_report(result)
    return result


def _write_all(
    candidates: list[Candidate],
    output: Path,
    model: str,
    captured: Captured,
    left: list[Left],
    progress: Callable[[str], None],
) -> list[Written]:
    output.mkdir(parents=True, exist_ok=True)
    written = []
    for candidate in candidates:
        agreement = captured.by_candidate.get(candidate.name, Agreement())
        try:
            written.append(write(candidate, output, model, agreement, captured.samples.get(candidate.name, {})))
        except Exception as error:  # the reference's own: content that was drawn need not suit it
            shutil.rmtree(output / candidate.name, ignore_errors=True)
            what = f"{type(error).__name__}: {error}".splitlines()[0][:300]
            left.append(Left(candidate.name, candidate.occurrences[0].modules, f"it does not run by itself: {what}"))
            continue
        progress(f"{candidate.name}: {agreement.summary()}")
    return written


def _not_too_large(candidates: list[Candidate], max_bytes: int, left: list[Left]) -> list[Candidate]:
    kept = []
    for candidate in candidates:
        size = _tensor_bytes(candidate)
        if size > max_bytes:
            reason = f"its tensors have {size / 2**20:.3g} MiB, more than {max_bytes / 2**20:.3g} MiB (--max-gib)"
            left.append(Left(candidate.name, candidate.occurrences[0].modules, reason))
        else:
            kept.append(candidate)
    return kept


def _tensor_bytes(candidate: Candidate) -> int:
    """Bytes of all inputs and outputs at the largest of the calls' shapes."""
    found = candidate.found
    largest = 0
    for binding in candidate.exported.bindings:
        total = 0
        for node in (*found.inputs, *found.outputs):
            sizes = [s if isinstance(s, int) else int(s.subs(binding)) for s in tensor_sizes(node)]
            total += math.prod(sizes) * node.meta["val"].dtype.itemsize
        largest = max(largest, total)
    return largest


def _has_content(model: torch.nn.Module, examples: Examples, notes: list[str]) -> bool:
    tensors = [*model.parameters(), *model.buffers(), *(leaf for c in examples.calls for leaf in c.leaves)]
    if any(isinstance(t, torch.Tensor) and t.is_meta for t in tensors):
        notes.append("the model or its examples are on the meta device, so that it could not be run")
        return False
    return True


def _cpu_rates(hardware: HardwareName) -> CpuRates | None:
    if hardware.is_gpu:
        return None
    try:
        return calibrate_cpu(default_cache_dir())
    except CalibrationError as error:
        raise ExtractError(f"the CPU's rates cannot be measured: {error}") from error


def _shapes(examples: Examples) -> dict[int, list[str]]:
    return {
        number: [
            f"{name} {str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
            for name, value in call.arguments.items()
            if isinstance(value, torch.Tensor)
        ]
        for number, call in enumerate(examples.calls)
    }


def _slug(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("_") or "model"
