"""How ATen operators are written in PyTorch's own language; what is not listed is called by its ATen name, which is
always right. Each speller gets the operator's arguments by schema name, already as text, and says how tightly it binds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

ATOM, UNARY, POWER, PRODUCT, SUM, COMPARISON = 10, 7, 8, 6, 5, 3
"""How tightly a piece of text binds: an operand that binds less than its operator needs parentheses."""


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of Python and how tightly it binds."""

    text: str
    binding: int = ATOM

    def within(self, binding: int) -> str:
        """The text as an operand of something that binds this tightly."""
        return self.text if self.binding >= binding else f"({self.text})"


@dataclass(frozen=True, slots=True)
class Arguments:
    """An operator's arguments: ``raw`` as in the graph, ``text`` as Python, both by schema name; and defaults."""

    raw: Mapping[str, Any]
    text: Mapping[str, Text]
    default: Mapping[str, Any]

    def __getitem__(self, name: str) -> str:
        return self.text[name].text

    def receiver(self, name: str = "self") -> str:
        """An argument as what a method is called on."""
        return self.text[name].within(ATOM)

    def given(self, *names: str) -> bool:
        """Whether any of ``names`` differs from its default."""
        return any(name in self.raw and self.raw[name] != self.default.get(name) for name in names)

    def keywords(self, *names: str) -> str:
        """`` , name=value`` for those that differ from their defaults."""
        return "".join(f", {name}={self[name]}" for name in names if self.given(name))


Speller = Callable[[Arguments], Text | None]


def _infix(sign: str, binding: int) -> Speller:
    def spell(a: Arguments) -> Text | None:
        if a.given("alpha"):
            return None
        # The right side of - and / must bind more tightly than they do.
        right = a.text["other"].within(binding + (sign in ("-", "/")))
        if binding == COMPARISON:
            right = a.text["other"].within(COMPARISON + 1)
        left = a.text["self"].within(binding + (binding == COMPARISON))
        return Text(f"{left} {sign} {right}", binding)

    return spell


def _call(function: str, *positional: str, keywords: tuple[str, ...] = ()) -> Speller:
    """``function(positional…, keyword=…)``; arguments in neither list must be at their defaults."""

    def spell(a: Arguments) -> Text | None:
        others = [name for name in a.raw if name not in positional and name not in keywords]
        if a.given(*others):
            return None
        return Text(f"{function}({', '.join(a[name] for name in positional)}{a.keywords(*keywords)})")

    return spell


def _method(name: str, *positional: str, keywords: tuple[str, ...] = ()) -> Speller:
    """``receiver.name(positional…, keyword=…)``."""

    def spell(a: Arguments) -> Text | None:
        others = [n for n in a.raw if n not in ("self", *positional) and n not in keywords]
        if a.given(*others):
            return None
        inside = ", ".join(a[n] for n in positional) + a.keywords(*keywords)
        return Text(f"{a.receiver()}.{name}({inside.removeprefix(', ')})")

    return spell


def _cast(a: Arguments) -> Text | None:
    if a.given("memory_format", "non_blocking"):
        return None
    return Text(f"{a.receiver()}.to({a['dtype']})" if a.given("dtype") else f"{a.receiver()}.clone()")


def _clone(a: Arguments) -> Text:
    contiguous = a.given("memory_format") and "contiguous_format" in a["memory_format"]
    return Text(f"{a.receiver()}.contiguous()" if contiguous else f"{a.receiver()}.clone()")


def _reshape(a: Arguments) -> Text:
    return Text(f"{a.receiver()}.reshape({a['size'][1:-1].rstrip(',')})")


def _expand(a: Arguments) -> Text:
    return Text(f"{a.receiver()}.expand({a['size'][1:-1].rstrip(',')})")


def _permute(a: Arguments) -> Text:
    dims = list(a.raw["dims"])
    rank = len(dims)
    moved = [i for i, d in enumerate(dims) if d % rank != i]
    if len(moved) == 2:
        return Text(f"{a.receiver()}.transpose({moved[0]}, {moved[1]})")
    return Text(f"{a.receiver()}.permute({', '.join(str(d) for d in dims)})")


def _slice(a: Arguments) -> Text | None:
    start, end = a.raw.get("start"), a.raw.get("end")
    dim = a.raw.get("dim", 0)
    first = "" if start in (None, 0) else a["start"]
    last = "" if end is None or (isinstance(end, int) and end >= 2**62) else a["end"]
    step = f":{a['step']}" if a.given("step") else ""
    if not (first or last or step):
        return Text(a.receiver())
    if not isinstance(dim, int) or dim < -1:
        return None
    before = "..., " if dim == -1 else ":, " * dim
    return Text(f"{a.receiver()}[{before}{first}:{last}{step}]")


def _softmax(name: str) -> Speller:
    def spell(a: Arguments) -> Text:
        dtype = ", dtype=torch.float32" if a.raw.get("half_to_float") is True else ""
        return Text(f"torch.{name}({a['self']}, dim={a['dim']}{dtype})")

    return spell


def _norm(function: str, shape: str) -> Speller:
    def spell(a: Arguments) -> Text:
        weights = "".join(f", {name}={a[name]}" for name in ("weight", "bias") if a.raw.get(name) is not None)
        eps = f", eps={a['eps']}" if a.raw.get("eps") is not None else ""
        return Text(f"F.{function}({a['input']}, {a[shape]}{weights}{eps})")

    return spell


def _reduce(name: str) -> Speller:
    def spell(a: Arguments) -> Text | None:
        if a.given("dtype"):
            return None
        dim = a["dim"] if "dim" in a.raw else ""
        if dim.startswith("(") and dim.endswith(",)"):
            dim = dim[1:-2]
        inside = (f"dim={dim}" if dim else "") + (", keepdim=True" if a.raw.get("keepdim") else "")
        return Text(f"{a.receiver()}.{name}({inside})")

    return spell


def _attention(a: Arguments) -> Text:
    options = a.keywords("attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
    return Text(f"F.scaled_dot_product_attention({a['query']}, {a['key']}, {a['value']}{options})")


def _convolution(function: str) -> Speller:
    return _call(function, "input", "weight", keywords=("bias", "stride", "padding", "dilation", "groups"))


def _index(a: Arguments) -> Text | None:
    if any(index is None for index in a.raw["indices"]):
        return None
    return Text(f"{a.receiver()}[{a['indices'][1:-1].rstrip(',')}]")


def _embedding(a: Arguments) -> Text:
    return Text(f"F.embedding({a['indices']}, {a['weight']})")


SPELLERS: dict[str, Speller] = {
    "add.Tensor": _infix("+", SUM), "add.Scalar": _infix("+", SUM),
    "sub.Tensor": _infix("-", SUM), "sub.Scalar": _infix("-", SUM),
    "mul.Tensor": _infix("*", PRODUCT), "mul.Scalar": _infix("*", PRODUCT),
    "div.Tensor": _infix("/", PRODUCT), "div.Scalar": _infix("/", PRODUCT),
    **{
        f"{name}.{kind}": _infix(sign, COMPARISON)
        for name, sign in {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}.items()
        for kind in ("Tensor", "Scalar")
    },
    "linear.default": _call("F.linear", "input", "weight", keywords=("bias",)),
    "mm.default": _call("torch.mm", "self", "mat2"),
    "bmm.default": _call("torch.bmm", "self", "mat2"),
    "matmul.default": _call("torch.matmul", "self", "other"),
    "addmm.default": _call("torch.addmm", "self", "mat1", "mat2"),
    "baddbmm.default": _call("torch.baddbmm", "self", "batch1", "batch2", keywords=("beta", "alpha")),
    "scaled_dot_product_attention.default": _attention,
    "conv1d.default": _convolution("F.conv1d"),
    "conv2d.default": _convolution("F.conv2d"),
    "conv3d.default": _convolution("F.conv3d"),
    "rms_norm.default": _norm("rms_norm", "normalized_shape"),
    "layer_norm.default": _norm("layer_norm", "normalized_shape"),
    "group_norm.default": _norm("group_norm", "num_groups"),
    "silu.default": _call("F.silu", "self"),
    "gelu.default": _call("F.gelu", "self", keywords=("approximate",)),
    "relu.default": _call("F.relu", "self"),
    "softplus.default": _call("F.softplus", "self", keywords=("beta", "threshold")),
    "hardswish.default": _call("F.hardswish", "self"),
    "glu.default": _call("F.glu", "self", keywords=("dim",)),
    "embedding.default": _embedding,
    "index.Tensor": _index,
    "topk.default": _call("torch.topk", "self", "k", keywords=("dim", "largest", "sorted")),
    **{
        f"{name}.default": _call(f"torch.{name}", "self")
        for name in (
            "exp", "log", "sqrt", "rsqrt", "cos", "sin", "tanh", "sigmoid", "abs", "erf", "reciprocal", "floor", "ceil",
            "round", "square", "log1p", "exp2", "log2", "sign", "logical_not",
        )
    },
    "bitwise_not.default": lambda a: Text(f"~{a.text['self'].within(UNARY)}", UNARY),
    "neg.default": lambda a: Text(f"-{a.text['self'].within(UNARY)}", UNARY),
    "pow.Tensor_Scalar": lambda a: Text(f"{a.text['self'].within(ATOM)} ** {a.text['exponent'].within(ATOM)}", POWER),
    "maximum.default": _call("torch.maximum", "self", "other"),
    "minimum.default": _call("torch.minimum", "self", "other"),
    "where.self": _call("torch.where", "condition", "self", "other"),
    "clamp.default": _call("torch.clamp", "self", keywords=("min", "max")),
    "logical_and.default": _call("torch.logical_and", "self", "other"),
    "logical_or.default": _call("torch.logical_or", "self", "other"),
    "_softmax.default": _softmax("softmax"),
    "_log_softmax.default": _softmax("log_softmax"),
    "sum.dim_IntList": _reduce("sum"),
    "mean.dim": _reduce("mean"),
    "mean.default": _reduce("mean"),
    "sum.default": _reduce("sum"),
    "amax.default": _reduce("amax"),
    "amin.default": _reduce("amin"),
    "var.correction": _method("var", keywords=("dim", "correction", "keepdim")),
    "cumsum.default": _method("cumsum", keywords=("dim", "dtype")),
    "cat.default": _call("torch.cat", "tensors", keywords=("dim",)),
    "stack.default": _call("torch.stack", "tensors", keywords=("dim",)),
    "_to_copy.default": _cast,
    "clone.default": _clone,
    "view.default": _reshape,
    "_unsafe_view.default": _reshape,
    "expand.default": _expand,
    "permute.default": _permute,
    "slice.Tensor": _slice,
    "unsqueeze.default": _method("unsqueeze", "dim"),
    "squeeze.dim": _method("squeeze", "dim"),
    "squeeze.dims": _method("squeeze", "dim"),
    "select.int": _method("select", "dim", "index"),
    "split_with_sizes.default": _method("split", "split_sizes", keywords=("dim",)),
    "split.Tensor": _method("split", "split_size", keywords=("dim",)),
    "unbind.int": _method("unbind", keywords=("dim",)),
    "alias.default": lambda a: Text(a.receiver()),
    "tril.default": _method("tril", keywords=("diagonal",)),
    "triu.default": _method("triu", keywords=("diagonal",)),
}
"""By ``name.overload``."""
