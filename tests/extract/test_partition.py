"""The fusion rule on graphs of a few lines, and what must hold of every cut."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from agentcore.extract.canonical import canonical
from agentcore.extract.export import Exported
from agentcore.extract.operators import Kind, kind_of, operator_name
from agentcore.extract.partition import Cut
from agentcore.extract.result import Extraction

ExportModel = Callable[[str, str], Exported]


def cut_of(exported: Exported, most: int = 48) -> list[list[str]]:
    """The operators of each region, views left out."""
    work = (Kind.PRODUCT, Kind.POINTWISE, Kind.REDUCTION)
    regions = Cut(exported.graph, most).regions
    return [[operator_name(n) for n in region.nodes if kind_of(n) in work] for region in regions]


@pytest.mark.parametrize(
    ("body", "regions"),
    [
        # An epilogue, and a norm that goes with the product that reads it.
        ("y = torch.relu(x @ x)\nreturn F.layer_norm(y, (8,)) @ x", [["matmul", "relu"], ["layer_norm", "matmul"]]),
        # A norm that two products of different tensors read stays alone.
        ("y = F.layer_norm(x, (8,))\nreturn (y @ x) @ (x.exp() @ y)", None),
        # Products of one tensor are one stage; a product of their product is another.
        ("a, b = x @ x, x @ x.t()\nreturn (a * b) @ x", [["matmul", "matmul", "mul"], ["matmul"]]),
        # What is returned is written to memory, and may still be read further on.
        ("y = x @ x\nreturn y, y.exp() + 1", [["matmul", "exp", "add"]]),
        # Randomness cannot be part of a problem: it is a border.
        ("return torch.rand_like(x @ x).exp() * x", [["matmul"], ["exp", "mul"]]),
        # A constant is made by whoever reads it.
        ("m = torch.ones(8, 8).tril() > 0\nreturn (x @ x).masked_fill(~m, 0.0)", None),
        # A gather goes with what reads it, not with what makes its indices.
        ("i = torch.topk(x, 1).indices[:4, 0]\nreturn x[i] @ x, i", [["topk", "getitem"], ["index", "matmul"]]),
    ],
    ids=["chain", "shared", "siblings", "returned", "random", "constant", "gather"],
)
def test_rule(export_model: ExportModel, body: str, regions: list[list[str]] | None) -> None:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    exported = export_model(f"def forward(self, x):\n{lines}", "[torch.ones(8, 8)]")
    found = cut_of(exported)
    check_cut(exported)
    if regions is not None:
        assert found == regions
    elif "layer_norm" in body:
        assert ["layer_norm"] in found
        assert [r for r in found if "exp" in r] == [["exp", "matmul"]]
    else:
        assert len(found) == 1
        assert len(Cut(exported.graph).regions[0].inputs) == 1


def test_size_is_bounded(export_model: ExportModel) -> None:
    exported = export_model(
        "def forward(self, x):\n    for _ in range(9):\n        x = (x + 1).sigmoid()\n    return x", "[torch.ones(4)]"
    )
    for most in (1, 4, 5):
        found = cut_of(exported, most)
        assert max(len(region) for region in found) == most
        assert sum(len(region) for region in found) == 18
        check_cut(exported, most)


def check_cut(exported: Exported, most: int = 48) -> None:
    """Every operator is in one region; regions do not depend on each other in a circle; borders are tensors."""
    cut = Cut(exported.graph, most)
    work = (Kind.PRODUCT, Kind.POINTWISE, Kind.REDUCTION)
    made: dict[torch.fx.Node, int] = {}
    for number, region in enumerate(cut.regions):
        assert not set(region.inputs) & set(region.nodes)
        assert set(region.outputs) <= set(region.nodes)
        for node in region.outputs:
            assert node not in made
            made[node] = number
    held = [n for region in cut.regions for n in region.nodes if kind_of(n) in work]
    repeated = {n for n in held if held.count(n) > 1}
    assert not any(set(n.all_input_nodes) & set(exported.leaves) for n in repeated), "only constants are repeated"
    # Kahn's algorithm over the regions: what is left would be a circle.
    outside = set(exported.leaves) | set(cut.opaque)
    waiting = {i: {made[n] for n in region.inputs if n not in outside} for i, region in enumerate(cut.regions)}
    while ready := [i for i, needs in waiting.items() if not needs & waiting.keys()]:
        for i in ready:
            del waiting[i]
    assert not waiting


def test_cuts_of_the_demonstrations_hold(decoder: Extraction, denoiser: Extraction) -> None:
    for extraction in (decoder, denoiser):
        exported = extraction.written[0].candidate.exported
        for most in (3, 8, 48):
            check_cut(exported, most)


def test_identical_parts_have_one_digest_and_others_their_own(export_model: ExportModel) -> None:
    exported = export_model(
        """
def forward(self, x, y, w, u, v):
    a = torch.tanh(x @ w)
    b = torch.tanh(y @ w)
    c = torch.tanh(w @ y)
    d = torch.tanh(u[:4] @ w)
    e = torch.sigmoid(v @ w)
    return a, b, c, d, e, F.softmax(x - y, -1), F.softmax(y - x, -1), F.softmax(x - x, -1), F.softmax(x - 2 * y, -1)
""",
        "[tuple(torch.ones(8, 8) for _ in range(5))]",
    )
    regions = Cut(exported.graph).regions
    digest = {str(n): canonical(r, exported.leaves).digest for r in regions for n in r.outputs}
    assert digest["tanh"] == digest["tanh_1"] == digest["tanh_2"], "argument names and positions do not matter"
    assert digest["_softmax"] == digest["_softmax_1"]
    others = [v for k, v in digest.items() if k not in ("tanh_1", "tanh_2", "_softmax_1")]
    assert len(set(others)) == len(others) == 6
