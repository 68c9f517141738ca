"""Names a person can follow: parameters by their path in the model, values by the module or operator that made them."""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping

from torch.fx import Node

from agentcore.extract.canonical import CanonicalRegion
from agentcore.extract.export import Exported, Leaf
from agentcore.extract.operators import Kind, is_element, is_size, is_tensor, kind_of, operator_name
from agentcore.extract.partition import is_in_leaf, module_path
from agentcore.extract.shapes import tensor_sizes, unique

_SHORT = {
    "scaled_dot_product_attention": "attention", "_to_copy": "cast", "_softmax": "probs", "_log_softmax": "log_probs",
    "native_layer_norm": "layer_norm", "native_group_norm": "group_norm", "_unsafe_view": "view", "clone": "copy",
    "split_with_sizes": "part", "split": "part", "getitem": "part",
}
_RESERVED = frozenset([*keyword.kwlist, "float", "torch", "F", "run", "make_inputs"])
_MAX_NAME = 100
_MAX_STEPS = 12


def node_names(found: CanonicalRegion, leaves: Mapping[Node, Leaf], taken: set[str]) -> dict[Node, str]:
    """A name for every node of the region: unique for inputs and outputs, a hint for the rest."""
    names: dict[Node, str] = {}
    used = set(_RESERVED) | taken
    for node in found.inputs:
        names[node] = unique(_leaf_name(leaves[node]) if node in leaves else _value_name(node), used)
        used.add(names[node])
    for node in found.outputs:
        names[node] = unique(_suffixed(_value_name(node), used), used)
        used.add(names[node])
    for node in found.region.nodes:
        if node not in names:
            hint = label(node)
            names[node] = unique(hint, used)
    return names


def _suffixed(name: str, used: set[str]) -> str:
    return f"{name}_out" if name in used else name


def _value_name(node: Node) -> str:
    """A label that says where the value comes from: ``q_proj_cast`` rather than one of many ``cast``."""
    own, source = label(node), node
    for _ in range(_MAX_STEPS):
        if kind_of(source) in (Kind.PRODUCT, Kind.INPUT) or label(source) != _operator_label(source):
            break
        tensors = [n for n in source.all_input_nodes if is_tensor(n) or is_element(source)]
        if not tensors:
            return own
        source = tensors[0]
    if source is node or kind_of(source) is Kind.INPUT:
        return own
    return f"{label(source)}_{own}"


def _operator_label(node: Node) -> str:
    name = operator_name(node)
    return _identifier(_SHORT.get(name, name.strip("_")))


def label(node: Node) -> str:
    """What made the value: a module of torch by its own name (``q_proj``), anything else by its operator."""
    if is_in_leaf(node) and kind_of(node) is not Kind.GLUE:
        return _identifier(_last(module_path(node)))
    return _operator_label(node)


def _last(path: str) -> str:
    """The last component of a module path; with the one before where it is only a number."""
    parts = path.split(".")
    return "_".join(parts[-2:]) if parts[-1].isdigit() and len(parts) > 1 else parts[-1]


def _leaf_name(leaf: Leaf) -> str:
    parts = leaf.name.split(".")
    if leaf.kind == "argument" or all(part.isdigit() for part in parts[:-1]):
        return _identifier(parts[-1])
    return _identifier(f"{_last('.'.join(parts[:-1]))}_{parts[-1]}")


def _identifier(text: str) -> str:
    cleaned = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_").lower()[:60]
    return cleaned if cleaned and not cleaned[0].isdigit() else f"t_{cleaned}"


def axis_names(found: CanonicalRegion, exported: Exported) -> dict[str, str]:
    """Names of the region's variable axes, by their place-holder (``a0``)."""
    names: dict[str, str] = {}
    for local, expression in found.axes.symbols.items():
        wanted = exported.symbol_names.get(expression) if expression.is_Symbol else None
        if wanted is None:
            parts = [exported.symbol_names.get(s, "size") for s in sorted(expression.free_symbols, key=str)]
            wanted = "_".join(dict.fromkeys(parts)) + ("" if expression.is_Symbol else "_rows")
        names[local] = unique(_identifier(wanted), [*names.values(), *_RESERVED])
    return names


def size_names(found: CanonicalRegion, given: Mapping[int, str], taken: set[str]) -> dict[int, str]:
    """Names of the constant sizes of the region's inputs and outputs; sizes of 0 and 1 stay numbers."""
    names: dict[int, str] = {}
    for node in (*found.inputs, *found.outputs):
        for size in tensor_sizes(node):
            if isinstance(size, int) and size > 1 and size not in names:
                wanted = _identifier(given.get(size, f"size_{size}"))
                names[size] = unique(wanted, [*names.values(), *taken])
    return names


def candidate_name(model: str, found: CanonicalRegion, taken: set[str]) -> str:
    """``<model>-<what it does>``: its products by module, else its operators, at most four."""
    made = [n for n in found.region.nodes if any(not is_size(source) for source in n.all_input_nodes)]
    work = [n for n in made if kind_of(n) in (Kind.PRODUCT, Kind.REDUCTION)]
    products = [n for n in work if kind_of(n) is Kind.PRODUCT]
    rest = [n for n in made if kind_of(n) is Kind.POINTWISE and operator_name(n) not in _PLAIN]
    parts = list(dict.fromkeys(label(n) for n in (work or rest)))
    if products and len(parts) < 4:
        parts += [part for part in dict.fromkeys(label(n) for n in rest) if part not in parts][-2:]
    text = "_".join(parts[:5]) or "copy"
    name = re.sub(r"[^a-z0-9_-]+", "_", f"{_snake(model)}-{text}".lower())[: _MAX_NAME - 5].strip("-_")
    return unique(name, taken)


_PLAIN = frozenset(["_to_copy", "clone", "cat", "getitem", "bitwise_not", "where"])


def _snake(text: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text).lower()
