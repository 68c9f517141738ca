"""What a random input stands for, guessed from its name, description, dtype and shape, so that its content makes sense.

Random numbers alone would make many problems meaningless: a variance below zero, an index past its table, a row that is
masked altogether. The first line of the table that applies decides. Content follows the seed, and nothing else.

| role | taken where | content |
|---|---|---|
| bounded | the source gives ``low`` or ``high`` | uniform in [low, high) |
| bits | bool | half of them set |
| keep mask | bool or integer, ``mask`` | half are kept (nine in ten of a ``drop`` mask), the first of a row always |
| packed | float4_e2m1fn_x2, float8_e8m0fnu | any pair of e2m1; 2^-3 … 2^3 |
| offsets | integers in a row, ``indptr``, ``cu_seqlens``, ``offsets`` … | from 0, rising, to the length they divide |
| lengths | integers, ``seq_lens``, ``lengths``, ``counts`` … | 1 … the length they are of |
| distinct indices | indices in ``topk``, ``perm``, ``page``, ``block``, ``slot`` … | without repetition in a row |
| indices | integers, ``ids``, ``index``, ``labels``, ``positions`` … | 0 … the axis they index, or the smallest axis |
| levels | int8 and uint8 of no such name | the whole range |
| small integers | other integers | 0 … the smallest axis |
| epsilon | scalars ``eps`` | 1e-5 |
| causal mask | floats, ``attention_mask``, ``causal_mask`` and square | 0, and the dtype's minimum above the diagonal |
| additive mask | floats with ``mask`` and "additive" or "-inf" | 0, and the minimum for a quarter, never the first |
| binary mask | other floats with ``mask`` | 0 or 1, the first of a row always 1 |
| norm gain | ``norm``, ``ln``, ``gamma``, ``gain``, or a weight of one dimension | normal around 1, deviation 0.1 |
| probabilities | ``attn_weights``, ``probs``, "softmax output" … | softmax of normal numbers, over the last axis |
| unit interval | "sigmoid output", "in [0, 1]" … | uniform in [0, 1) |
| frequencies | ``inv_freq`` | 10000^(-i/n) |
| cosines, sines | ``cos``, ``sin`` | of uniform angles, the same for a pair of one shape |
| decay | ``A_log``, ``A``, ``A_cumsum``, ``g``, ``decay`` | below zero, as state-space models have them |
| quantised weight | a weight of float8 | normal, deviation 1: its scale carries the fan-in |
| weight scale | ``…_scale`` (16 bits or more) of a float8 or float4 weight | as positive, over the root of the fan-in |
| positive | ``rstd``, ``var``, ``std``, ``scale`` of a quantised problem, "positive" … | uniform in [0.5, 1.5) |
| weight | two dimensions or more, ``weight``, ``w``, ``_proj`` … | uniform, deviation one over the root of the fan-in |
| bias | ``bias``, ``beta`` | normal, deviation 0.1 |
| values | everything else, gradients always | normal, deviation 1 |

The fan-in of a weight is its last axis; of a convolution (``conv`` or ``patch`` in name or description) all axes but
the first.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum, auto

from agentcore.problems.definition import Definition, TensorSpec


class Role(StrEnum):
    BITS = auto()
    KEEP_MASK = auto()
    PACKED = auto()
    OFFSETS = auto()
    LENGTHS = auto()
    DISTINCT_INDICES = auto()
    INDICES = auto()
    LEVELS = auto()
    EPSILON = auto()
    CAUSAL_MASK = auto()
    ADDITIVE_MASK = auto()
    BINARY_MASK = auto()
    NORM_GAIN = auto()
    PROBABILITIES = auto()
    UNIT_INTERVAL = auto()
    FREQUENCIES = auto()
    COSINES = auto()
    SINES = auto()
    DECAY = auto()
    QUANTISED_WEIGHT = auto()
    WEIGHT_SCALE = auto()
    POSITIVE = auto()
    WEIGHT = auto()
    BIAS = auto()
    VALUES = auto()


@dataclass(frozen=True, slots=True)
class Guess:
    """``below``: one above the greatest index, length or offset. ``fan_in``: of a weight or of a scale's weight."""

    role: Role
    below: int = 0
    fan_in: int = 1


_MASK = re.compile(r"(^|_)mask(s|ed)?\d*(_|$)|(^|_)mask")
_WEIGHT = re.compile(r"weight|kernel|(^|_)w(_|\d|$)|(^|_)w_?[a-z]?$|_proj$")
_GAIN = re.compile(r"weight|gamma|gain")
_NORM = re.compile(r"norm|(^|_)(ln|rms|grn)\d*(_|$)|gamma|gain")
_NORM_LAYER = re.compile(r"(norm|ln)\d*_.*(proj|linear|fc|dense)")  # a linear layer within an adaptive norm
_BIAS = re.compile(r"bias|(^|_)beta(_|$)")
_POSITIVE = re.compile(
    r"(^|_)(rstd|inv_std|inv_rms|rms|variance|var|std|sigma|denom|denominator|amax|absmax|sum_exp|exp_sum)\d*(_|$)"
)
_SAID_POSITIVE = re.compile(r"\b(strictly |must be |always )?positive\b|\bnon-?negative\b|> ?0\b")
_BOTH_SIGNS = re.compile(r"positive (and|or|/) ?negative|positive pairs?")
_PROBABILITIES = re.compile(
    r"(^|_)(attn|attention|routing|router)_weights?\d*$|(^|_)p_attn|(^|_)prob(s|abilities)?\d*(_|$)"
)
_SAID_PROBABILITIES = re.compile(
    r"softmax.*output|output.*softmax|probabilit|after softmax|softmax(ed)? (weights|scores)"
)
_SAID_UNIT = re.compile(
    r"(after|post-?) ?sigmoid|sigmoid (output|activation)|(in|within) \[0, ?1[\])]|between 0 and 1\b"
)
_FREQUENCIES = re.compile(r"(^|_)inv(erse)?_?freq(s|uencies)?(_|$)")
_COSINES, _SINES = re.compile(r"(^|_)cos(ine)?\d*(_|$)"), re.compile(r"(^|_)sine?\d*(_|$)")
_DECAY = re.compile(r"A|A_log|A_cumsum|g|g_cumsum|log_g|(log_)?decays?")
_ADDITIVE = re.compile(r"additive|-inf|minus inf|negative infinity|large negative|-1e")
_OFFSETS = re.compile(r"indptr|(^|_)cu_?(seq|len|q|k)|cumul|(^|_)(seq|row|expert|group|token|chunk)?_?offsets?(_|$)")
_LENGTHS = re.compile(
    r"(^|_)(seq|kv|q|cache|context|block|input)?_?(seq)?len(s|gth|gths)?(_|$)|(^|_)counts?(_|$)|num_tokens_per"
)
_INDICES = re.compile(
    r"ind(ex|ices)(_|$)|(^|_)idx(_|$)|(^|_)ids?(_|$)|labels?|targets?|(^|_)pos(itions?)?(_|$)|(^|_)tokens?$|tables?(_|$)"
    r"|mapping|(^|_)slots?(_|$)|(^|_)experts?$|perm|routing_map"
)
_DISTINCT = re.compile(r"top_?k|(^|_)selected|(^|_)experts?(_|$)|perm|page|kv_ind|block_tables?|slot|sorted|unique")

# Name of an index → names of the axes that it may index, the better first.
_INDEXED: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"type", (r"type",)),
    (r"expert|top_?k|rout|selected", (r"n(um)?_?(routed_|local_)?experts$", r"expert")),
    (r"(input|token|word|vocab|draft|target)_?(ids?|tokens?)|labels?|targets?|^ids$|^tokens$", (r"vocab", r"class")),
    (r"slot", (r"slot", r"page|block")),
    (r"page|kv_ind|block", (r"n(um)?_?(kv_)?(pages|blocks)", r"page|block", r"kv")),
    (r"pos", (r"max_(pos|seq|len)", r"(^|_)max", r"seq|len", r"token")),
    (r"batch", (r"batch",)),
    (r"token|perm|gather|scatter|sorted", (r"(num|total)_tokens", r"token", r"row")),
    (r"group", (r"group",)),
    (r"class", (r"class",)),
    (r"head", (r"head",)),
)
# Name of offsets → names of the axis that they divide.
_DIVIDED: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"kv|(^|_)k(_|$)", (r"kv_ind", r"total_k", r"total_(num_)?kv|num_kv", r"kv")),
    (r"(^|_)qo?(_|$)|query", (r"total_q", r"(^|_)q(_|$)|query")),
    (r"", (r"total", r"num_tokens|n_tokens|tokens", r"nnz|indices", r"seq")),
)
# Name of lengths → names of the axis that bounds them.
_MEASURED: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"kv|cache|context", (r"max_kv|max_(seq|len|context)", r"kv", r"seq|len|context")),
    (r"", (r"max_(seq|len)", r"(^|_)max", r"seq|len", r"token")),
)


def guess(name: str, spec: TensorSpec, definition: Definition, axes: Mapping[str, int]) -> Guess:
    """The role of input ``name``, whose source is random, in a workload with ``axes``."""
    shape = definition.shape(spec, axes) or ()
    lowered, said = name.lower(), spec.description.lower()
    if spec.dtype == "bool":
        return Guess(Role.KEEP_MASK if _MASK.search(lowered) and shape else Role.BITS)
    if spec.dtype in ("float4_e2m1fn_x2", "float8_e8m0fnu"):
        return Guess(Role.PACKED)
    if not spec.is_floating:
        return _guess_integers(name, spec, shape, definition, axes)
    if spec.is_scalar:
        if re.search(r"(^|_)eps(ilon)?(_|$)", lowered):
            return Guess(Role.EPSILON)
        positive = re.search(r"scale|temperature", lowered) or _POSITIVE.search(lowered) or _SAID_POSITIVE.search(said)
        return Guess(Role.POSITIVE if positive else Role.VALUES)
    if "grad" in lowered:
        return Guess(Role.VALUES)
    return _guess_floats(name, lowered, said, spec, shape, definition, axes)


def _guess_floats(
    name: str,
    lowered: str,
    said: str,
    spec: TensorSpec,
    shape: tuple[int, ...],
    definition: Definition,
    axes: Mapping[str, int],
) -> Guess:
    square = len(shape) >= 2 and shape[-1] == shape[-2]
    wide = sum(size != 1 for size in shape)
    if _MASK.search(lowered):
        if square and ("causal" in lowered + said or re.search(r"att(entio)?n_mask", lowered)):
            return Guess(Role.CAUSAL_MASK)
        return Guess(Role.ADDITIVE_MASK if _ADDITIVE.search(said) else Role.BINARY_MASK)
    quantised = any(s.dtype.startswith(("float8", "float4")) for s in definition.inputs.values())
    if _BIAS.search(lowered):
        return Guess(Role.BIAS)
    if "scale" in lowered and quantised:
        weight = definition.inputs.get(re.sub(r"_(block_|inv_|dequant_)*scales?(_inv)?$", "", name))
        low = weight is not None and weight.dtype.startswith(("float8", "float4"))
        if weight is not None and low and _WEIGHT.search(lowered) and spec.itemsize > 1:
            return Guess(Role.WEIGHT_SCALE, fan_in=_fan_in(lowered, said, weight, definition, axes))
        return Guess(Role.POSITIVE)
    if _NORM.search(lowered) and _GAIN.search(lowered) and not _NORM_LAYER.search(lowered):
        return Guess(Role.NORM_GAIN)
    if wide <= 1 and _GAIN.search(lowered):
        return Guess(Role.NORM_GAIN)
    if "logit" not in lowered and (_PROBABILITIES.search(lowered) or _SAID_PROBABILITIES.search(said)):
        return Guess(Role.PROBABILITIES)
    if _FREQUENCIES.search(lowered):
        return Guess(Role.FREQUENCIES)
    if _COSINES.search(lowered):
        return Guess(Role.COSINES)
    if _SINES.search(lowered):
        return Guess(Role.SINES)
    if _DECAY.fullmatch(name) and (name not in ("A", "g") or re.search(r"decay|state|ssm|gate|diagonal", said)):
        return Guess(Role.DECAY)
    if _POSITIVE.search(lowered) or (_SAID_POSITIVE.search(said) and not _BOTH_SIGNS.search(said)):
        return Guess(Role.POSITIVE)
    if _SAID_UNIT.search(said):
        return Guess(Role.UNIT_INTERVAL)
    if wide >= 2 and _WEIGHT.search(lowered):
        fan_in = _fan_in(lowered, said, spec, definition, axes)
        return Guess(Role.QUANTISED_WEIGHT if spec.dtype.startswith("float8") else Role.WEIGHT, fan_in=fan_in)
    return Guess(Role.VALUES)


def _guess_integers(
    name: str, spec: TensorSpec, shape: tuple[int, ...], definition: Definition, axes: Mapping[str, int]
) -> Guess:
    lowered = name.lower()
    smallest = max(1, min((value for value in axes.values() if value > 0), default=2))
    if _MASK.search(lowered) and shape:
        return Guess(Role.KEEP_MASK)
    if len(shape) == 1 and _OFFSETS.search(lowered):
        own = {entry for entry in spec.shape or () if isinstance(entry, str)}
        constrained = _constrained_total(name, definition, axes)
        largest = max((value for axis, value in axes.items() if axis not in own), default=shape[0])
        others = {axis: value for axis, value in axes.items() if axis not in own}
        return Guess(Role.OFFSETS, constrained or _axis(lowered, _DIVIDED, others) or largest)
    if _LENGTHS.search(lowered) and not _INDICES.search(lowered):
        return Guess(Role.LENGTHS, (_axis(lowered, _MEASURED, axes) or smallest) + 1)
    if _INDICES.search(lowered):
        below = _axis(lowered, _INDEXED, axes) or smallest
        if shape and _DISTINCT.search(lowered) and shape[-1] <= below:
            return Guess(Role.DISTINCT_INDICES, below)
        return Guess(Role.INDICES, below)
    if spec.dtype in ("int8", "uint8"):
        return Guess(Role.LEVELS)
    return Guess(Role.INDICES, smallest)


def _axis(name: str, table: tuple[tuple[str, tuple[str, ...]], ...], axes: Mapping[str, int]) -> int:
    """The size of the axis that the first fitting line of ``table`` leads to, the smallest of several; 0 for none."""
    for of, candidates in table:
        if re.search(of, name):
            for candidate in candidates:
                sizes = [value for axis, value in axes.items() if re.search(candidate, axis.lower()) and value > 0]
                if sizes:
                    return min(sizes)
            return 0
    return 0


def _constrained_total(name: str, definition: Definition, axes: Mapping[str, int]) -> int:
    """What a constraint such as ``total_q == qo_indptr[-1].item()`` says the last offset is; 0 for none."""
    last = re.escape(name) + r"\s*\[\s*-1\s*\](\.item\(\))?"
    for constraint in definition.constraints:
        found = re.fullmatch(rf"\s*(?:(\w+)\s*==\s*{last}|{last}\s*==\s*(\w+))\s*", constraint)
        axis = found and (found.group(1) or found.group(4))
        if axis and axes.get(axis, 0) > 0:
            return axes[axis]
    return 0


def _fan_in(lowered: str, said: str, spec: TensorSpec, definition: Definition, axes: Mapping[str, int]) -> int:
    """How many products one output of the weight sums up; two to a byte of packed fp4."""
    shape = definition.shape(spec, axes) or (1,)
    sizes = shape[1:] if len(shape) >= 3 and re.search(r"conv|patch", lowered + " " + said) else shape[-1:]
    return max(1, math.prod(sizes) * (2 if spec.dtype == "float4_e2m1fn_x2" else 1))
