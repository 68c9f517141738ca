"""Where the inputs of an extracted problem get their content from.

Weights are random with the spread of their fan-in, gains near one; activations are random at the scale the model gave
them; contents that mean something (indices, masks, positions, frequency tables) follow a pattern that was recognised,
or are the model's own, kept in a safetensors file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from agentcore.extract.candidates import Candidate
from agentcore.extract.capture import Sample
from agentcore.extract.operators import is_size, operator_name
from agentcore.extract.shapes import tensor_sizes
from agentcore.problems.errors import ExpressionError

_ROOT3 = math.sqrt(3.0)
_MASKED = -1e4


@dataclass(frozen=True, slots=True)
class Content:
    """How one input is made: the workload's ``source`` (without the path of a file), and ``note`` for the brief.

    ``code`` is the expression of a ``custom`` source over ``axes`` and ``device``; ``tensors`` has the content of a
    ``safetensors`` source per example call, or one for all under -1.
    """

    source: dict[str, Any]
    note: str
    code: str = ""
    tensors: Mapping[int, torch.Tensor] | None = None


def contents(candidate: Candidate, samples: Mapping[int, list[Sample]]) -> list[Content]:
    """One per input, in the candidate's order. ``samples`` (per call) may be empty where nothing was run."""
    found, result = candidate.found, []
    for position, node in enumerate(found.inputs):
        taken = {number: of_call[position] for number, of_call in samples.items()}
        leaf = candidate.exported.leaves.get(node)
        kind = leaf.kind if leaf is not None else "activation"
        result.append(_content(candidate, node, kind, taken))
    return result


def _content(candidate: Candidate, node: Node, kind: str, samples: dict[int, Sample]) -> Content:
    dtype: torch.dtype = node.meta["val"].dtype
    some = next(iter(samples.values()), None)
    if kind == "parameter":
        return _parameter(candidate, node, some)
    meaningful = not dtype.is_floating_point or any(not s.finite for s in samples.values())
    if kind in ("buffer", "constant") and some is not None and some.content is not None:
        pattern = _pattern(candidate, node, samples)
        return pattern or Content({"type": "safetensors"}, f"the model's own {kind}", tensors={-1: some.content})
    table = _table_rows(candidate, node)
    if table is not None:
        return Content({"type": "random", "low": 0, "high": table}, "random rows of the table that it indexes")
    if meaningful:
        pattern = _pattern(candidate, node, samples)
        if pattern is not None:
            return pattern
        if samples and all(s.content is not None for s in samples.values()):
            tensors = {number: s.content for number, s in samples.items() if s.content is not None}
            return Content({"type": "safetensors"}, "as in the example calls", tensors=tensors)
        if not dtype.is_floating_point and some is not None and dtype != torch.bool:
            low, high = min(s.low for s in samples.values()), max(s.high for s in samples.values())
            return Content({"type": "random", "low": int(low), "high": int(high) + 1}, "random within the seen range")
        return Content({"type": "random"}, "random")
    return _activation(samples)


def _activation(samples: dict[int, Sample]) -> Content:
    if not samples:
        return _uniform(-_ROOT3, _ROOT3, "random, of scale 1 (the model was not run)")
    low, high = min(s.low for s in samples.values()), max(s.high for s in samples.values())
    rms = max(s.rms for s in samples.values())
    if low == high:
        return _uniform(low - 0.5, low + 0.5, f"random near {low:.2g}, which it was throughout")
    if low >= 0 or high <= 0:
        return _uniform(low, high, "random within the range that the model gave it")
    if max(-low, high) <= 1 and rms >= 0.4:
        return _uniform(-1.0, 1.0, "random between -1 and 1, as in the model")
    return _uniform(-_ROOT3 * rms, _ROOT3 * rms, f"random, of the scale that the model gave it (rms {rms:.2g})")


def _parameter(candidate: Candidate, node: Node, sample: Sample | None) -> Content:
    sizes = [s for s in tensor_sizes(node) if isinstance(s, int)]
    if len(sizes) <= 1:
        gain = sample is None or 0.25 <= sample.mean <= 4
        if _is_gain(candidate, node) or (sample is not None and sample.mean and gain and not _is_bias(candidate, node)):
            return _uniform(0.8, 1.2, "random near one")
        return _uniform(-0.17, 0.17, "random, small")
    # Weights of products have outputs first, but for a plain matrix product, where they come second.
    into = math.prod(sizes) // (sizes[-1] if _is_right_factor(candidate, node) else sizes[0])
    if _is_table(candidate, node):
        into = sizes[-1]
    spread = math.sqrt(3.0 / max(1, into))
    return _uniform(-spread, spread, f"random, scaled by a fan-in of {into}")


def _uniform(low: float, high: float, note: str) -> Content:
    return Content({"type": "random", "low": _rounded(low), "high": _rounded(high)}, note)


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")


def _readers(candidate: Candidate, node: Node, depth: int = 4) -> list[tuple[str, int]]:
    """Which operators of the region read ``node``, through views and casts, and as which argument."""
    inside = set(candidate.found.region.nodes)
    found: list[tuple[str, int]] = []
    waiting = [(node, 0)]
    while waiting:
        source, distance = waiting.pop()
        for user in source.users:
            if user not in inside or is_size(user):
                continue
            for position, argument in enumerate(user.args):
                if argument is source:
                    found.append((operator_name(user), position))
            if distance < depth and operator_name(user) in ("view", "permute", "_to_copy", "unsqueeze", "expand"):
                waiting.append((user, distance + 1))
    return found


def _is_gain(candidate: Candidate, node: Node) -> bool:
    places = {("rms_norm", 2), ("layer_norm", 2), ("group_norm", 2), ("native_layer_norm", 2)}
    return any(reader in places for reader in _readers(candidate, node))


def _is_bias(candidate: Candidate, node: Node) -> bool:
    places = {("layer_norm", 3), ("group_norm", 3), ("linear", 2), ("addmm", 0)}
    return any(reader in places for reader in _readers(candidate, node))


def _is_right_factor(candidate: Candidate, node: Node) -> bool:
    direct = [user for user in node.users if user in set(candidate.found.region.nodes)]
    names = {operator_name(user) for user in direct}
    return bool(names & {"mm", "matmul", "bmm", "addmm"})


def _is_table(candidate: Candidate, node: Node) -> bool:
    return any(reader == ("embedding", 0) for reader in _readers(candidate, node))


def _table_rows(candidate: Candidate, node: Node) -> int | None:
    """The rows of the table that this input indexes, where it is only that."""
    inside = set(candidate.found.region.nodes)
    users = [user for user in node.users if user in inside]
    if not users or any(operator_name(u) != "embedding" or u.args[1] is not node for u in users):
        return None
    rows = []
    for user in users:
        table = user.args[0]
        assert isinstance(table, Node)
        rows.append(tensor_sizes(table)[0])
    sizes = [row for row in rows if isinstance(row, int)]
    return min(sizes) if sizes and len(sizes) == len(rows) else None


def _pattern(candidate: Candidate, node: Node, samples: dict[int, Sample]) -> Content | None:
    """A recognised content as code: one value, consecutive numbers, or a causal mask (as flags, or added)."""
    tensors = [s.content for s in samples.values()]
    if not tensors or any(t is None or not t.numel() for t in tensors):
        return None
    known = [t for t in tensors if t is not None]
    dtype = known[0].dtype
    place = f"dtype={dtype}, device=device"
    entries = _shape_code(candidate, node)
    shape = f"({entries[0]},)" if len(entries) == 1 else f"({', '.join(entries)})"
    first = known[0].flatten()[0].item()
    if all(bool((t == first).all()) for t in known):
        return Content({"type": "custom"}, f"{first} throughout", f"torch.full({shape}, {_literal(first)}, {place})")
    if all(t.dim() >= 1 and torch.equal(t, torch.arange(t.shape[-1]).to(dtype).expand(t.shape)) for t in known):
        code = f"torch.arange({entries[-1]}, device=device).to({dtype}).expand({shape}).contiguous()"
        return Content({"type": "custom"}, "consecutive numbers from 0", code)
    if all(t.dim() >= 2 for t in known):
        allowed = [t if dtype == torch.bool else t == 0 for t in known]
        lowest = min(float(t.double().min()) for t in known)
        causal = all(torch.equal(a, torch.ones(a.shape, dtype=torch.bool).tril()) for a in allowed)
        two_valued = all(bool(((t == 0) | (t.double() == lowest)).all()) for t in known)
        ones = f"torch.ones({shape}, dtype=torch.bool, device=device).tril()"
        if causal and dtype == torch.bool:
            return Content({"type": "custom"}, "a causal mask", ones)
        if causal and two_valued and dtype.is_floating_point and lowest < _MASKED:
            code = f"torch.zeros({shape}, {place}).masked_fill(~{ones}, {_literal(lowest)})"
            return Content({"type": "custom"}, "a causal mask that is added", code)
    return None


def _literal(value: Any) -> str:
    infinite = isinstance(value, float) and not math.isfinite(value)
    return f'float("{value}")' if infinite else repr(value)


def _shape_code(candidate: Candidate, node: Node) -> list[str]:
    """The sizes of an input as Python over ``axes``."""
    entries = []
    for size in tensor_sizes(node):
        expressed = candidate.found.axes.express(size)
        if isinstance(expressed, str):
            try:
                expressed = re.sub(r"\ba\d+\b", lambda m: f'axes["{candidate.axes[m.group()]}"]', expressed)
            except KeyError as error:
                raise ExpressionError(f"{expressed!r} uses an axis without a name") from error
        entries.append(str(expressed))
    return entries


def generator_source(candidate: Candidate, made: list[Content]) -> str:
    """The ``make_inputs`` of a reference, for inputs whose content follows a pattern; empty without such."""
    custom = [(n, c) for n, c in zip(candidate.input_names, made, strict=True) if c.source["type"] == "custom"]
    if not custom:
        return ""
    lines = [f'        "{name}": {content.code},' for name, content in custom]
    return "\n".join(
        [
            "def make_inputs(axes: dict, device: torch.device) -> dict[str, torch.Tensor]:",
            '    """The inputs whose content follows a pattern."""',
            "    return {",
            *lines,
            "    }",
        ]
    )
