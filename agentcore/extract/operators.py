"""What each node of an exported graph is to the fusion rule: a product, pointwise work, a reduction, a view, or opaque.

Told from ATen's own schemas and tags where they say it, from names elsewhere.
"""

from __future__ import annotations

import operator
from enum import StrEnum

import torch
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols


class Kind(StrEnum):
    """The fusion rule's classes of operators (see :mod:`agentcore.extract.partition`)."""

    INPUT = "input"          # a placeholder
    PRODUCT = "product"      # matrix products, convolutions, attention: the anchors
    POINTWISE = "pointwise"  # element by element, and copies, gathers and concatenations
    REDUCTION = "reduction"  # norms, softmax, sums, sorts: an output element needs many input elements
    GLUE = "glue"            # views, widening casts and size arithmetic: repeated by whoever reads them
    OPAQUE = "opaque"        # cannot be part of a problem
    RESULT = "result"        # the graph's output


_PRODUCTS = frozenset(
    [
        "linear", "mm", "addmm", "bmm", "baddbmm", "matmul", "mv", "addmv", "dot", "convolution", "conv1d", "conv2d",
        "conv3d", "conv_transpose1d", "conv_transpose2d", "_scaled_mm", "_grouped_mm", "_int_mm",
        "scaled_dot_product_attention",
    ]
)
_MOVEMENTS = frozenset(
    [
        "cat", "clone", "_to_copy", "copy", "embedding", "gather", "index", "index_select", "constant_pad_nd", "repeat",
        "flip", "roll", "tril", "triu", "slice_scatter", "select_scatter", "index_put", "scatter", "scatter_add",
        "upsample_nearest2d", "pixel_shuffle", "stack", "where", "masked_fill", "glu", "repeat_interleave",
    ]
)
_REDUCTIONS = frozenset(["rms_norm", "layer_norm", "group_norm"])
_VIEW_NAMES = frozenset(["_unsafe_view"])


def operator_name(node: Node) -> str:
    """The ATen name without overload, such as ``linear``; other callables by their own name."""
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        return str(target._schema.name.partition("::")[2])
    return str(getattr(target, "__name__", target))


def is_tensor(node: Node) -> bool:
    """Whether the node's value is one tensor."""
    return isinstance(node.meta.get("val"), torch.Tensor)


def is_element(node: Node) -> bool:
    """Whether the node picks one result of an operator that has several."""
    return node.target is operator.getitem


def is_elementwise(node: Node) -> bool:
    """Whether each element of the result comes from one element of each operand, spread where it is smaller."""
    return isinstance(node.target, torch._ops.OpOverload) and torch.Tag.pointwise in node.target.tags


def is_size(node: Node) -> bool:
    """Whether the node's value is a number that shapes are made of, which no tensor's content decides."""
    value = node.meta.get("val")
    return isinstance(value, int | float | torch.SymInt | torch.SymFloat | torch.SymBool)


def kind_of(node: Node) -> Kind:
    """The class of one node, by itself: what becomes glue for its place (constants) is decided later."""
    if node.op == "placeholder":
        return Kind.INPUT
    if node.op == "output":
        return Kind.RESULT
    if node.op != "call_function":
        return Kind.OPAQUE
    target = node.target
    if target is operator.getitem:
        source = node.args[0]
        # An element of a view is a view; an element of a computed tuple follows what computed it.
        kind = kind_of(source) if isinstance(source, Node) else Kind.OPAQUE
        return kind if kind in (Kind.GLUE, Kind.OPAQUE) else Kind.POINTWISE
    if is_size(node):
        return Kind.OPAQUE if _reads_tensor_content(node) else Kind.GLUE
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
        return Kind.OPAQUE
    tags = set(target.tags)
    name = operator_name(node)
    if name in _PRODUCTS:
        return Kind.PRODUCT
    if torch.Tag.nondeterministic_seeded in tags or target._schema.is_mutable or _has_unknown_size(node):
        return Kind.OPAQUE
    if name in _VIEW_NAMES or _is_view(target) or _is_widening(node, name):
        return Kind.GLUE
    if name in _REDUCTIONS:
        return Kind.REDUCTION
    if torch.Tag.pointwise in tags or name in _MOVEMENTS or name.startswith(("new_", "full", "zeros", "ones")):
        return Kind.POINTWISE
    return Kind.REDUCTION


def _has_unknown_size(node: Node) -> bool:
    """Whether the size of a result follows from content: an unbacked symbol, in torch's words."""
    values = node.meta.get("val")
    tensors = [v for v in (values if isinstance(values, tuple | list) else [values]) if isinstance(v, torch.Tensor)]
    return any(free_unbacked_symbols(tensor) for tensor in tensors)


def _is_view(target: torch._ops.OpOverload) -> bool:
    aliases = [r.alias_info for r in target._schema.returns]
    return any(alias is not None and not alias.is_write for alias in aliases)


def _is_widening(node: Node, name: str) -> bool:
    """A cast to a wider type: cheap to repeat, and a boundary behind it would cost twice the bytes of one before it."""
    source = node.args[0] if node.args else None
    if name != "_to_copy" or not isinstance(source, Node) or not is_tensor(source) or not is_tensor(node):
        return False
    before, after = source.meta["val"].dtype, node.meta["val"].dtype
    return bool(after.itemsize > before.itemsize and before.is_floating_point and after.is_floating_point)


def _reads_tensor_content(node: Node) -> bool:
    return operator_name(node) in ("item", "_local_scalar_dense")
