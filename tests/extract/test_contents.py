"""What extracted inputs hold: weights by fan-in, gains near one, patterns as code, everything else at its scale."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from agentcore.extract.candidates import find_candidates
from agentcore.extract.capture import run_all
from agentcore.extract.export import export
from agentcore.extract.extraction import Options, extract
from agentcore.extract.heldout import held_out
from agentcore.extract.result import Extraction
from agentcore.extract.source import load_examples, load_model
from agentcore.problems.tensors import InputFactory, Value
from agentcore.vocabulary import HardwareName

WriteModel = Callable[[str, str], tuple[str, str]]

BODY = """
def __init__(self):
    super().__init__()
    torch.manual_seed(3)
    self.table = nn.Embedding(50, 32)
    self.conv = nn.Conv1d(32, 16, 5, padding=2)
    self.norm = nn.LayerNorm(16)
    self.register_buffer("phase", torch.arange(16) / 8)

def forward(self, ids, positions, mask, bias, gain):
    x = self.table(ids) + positions[..., None] * 0.01
    x = self.norm(self.conv(x.transpose(1, 2)).transpose(1, 2)) + torch.cos(self.phase)
    scores = (x @ x.transpose(1, 2)).masked_fill(~mask, -1e9) + bias
    return scores.softmax(-1) @ (x * gain)
"""
CALLS = """[
        (torch.randint(0, 50, (2, n)), torch.arange(n).expand(2, n), torch.ones(1, n, n, dtype=torch.bool).tril(),
         torch.zeros(1, n, n).masked_fill(~torch.ones(1, n, n, dtype=torch.bool).tril(), float("-inf")),
         torch.full((2, n, 1), 30.0) * torch.randn(2, n, 1))
        for n in (6, 20)
    ]"""


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Extraction:
    root = tmp_path_factory.mktemp("mixed")
    indented = "\n".join(f"    {line}" for line in BODY.strip().splitlines())
    head = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n\nclass Model(nn.Module):\n"
    (root / "model.py").write_text(f"{head}{indented}\n\n\ndef examples():\n    return {CALLS}\n")
    return extract(Options(f"{root / 'model.py'}:Model", str(root / "model.py"), root / "out", (HardwareName.H200,)))


def inputs_of(extraction: Extraction, operator: str, heldout: bool = False) -> dict[str, Value]:
    """Inputs made for the largest workload of the candidate that has ``operator`` in its reference."""
    (found,) = [w for w in extraction.written if operator in w.problem.reference]
    workload = (found.problem.heldout if heldout else found.problem.workloads)[-1]
    return InputFactory(found.problem, "cpu").make(workload, torch.Generator().manual_seed(1))


def test_every_reference_agrees(mixed: Extraction) -> None:
    assert not mixed.failures
    assert all(w.agreement.comparisons for w in mixed.written)
    assert not mixed.left


def test_weights_spread_by_their_fan_in_and_gains_near_one(mixed: Extraction) -> None:
    made = inputs_of(mixed, "F.conv1d")
    weight = made["conv_weight"]
    assert isinstance(weight, torch.Tensor)
    assert weight.std().item() == pytest.approx((32 * 5) ** -0.5, rel=0.05)
    gain = inputs_of(mixed, "F.layer_norm")["norm_weight"]
    assert isinstance(gain, torch.Tensor)
    assert (gain - 1).abs().max() < 0.25


def test_indices_and_positions_are_valid(mixed: Extraction) -> None:
    made = inputs_of(mixed, "F.embedding", heldout=True)
    ids, positions = made["ids"], made["positions"]
    assert isinstance(ids, torch.Tensor) and isinstance(positions, torch.Tensor)
    assert ids.min() >= 0 and 30 < ids.max() < 50
    assert torch.equal(positions, torch.arange(ids.shape[1]).expand(ids.shape))


def test_masks_are_causal_on_held_out_shapes(mixed: Extraction) -> None:
    made = inputs_of(mixed, "torch.softmax", heldout=True)
    mask, bias = made["mask"], made["bias"]
    assert isinstance(mask, torch.Tensor) and isinstance(bias, torch.Tensor)
    assert 6 < mask.shape[-1] < 20
    assert torch.equal(mask, torch.ones_like(mask).tril())
    assert torch.equal(bias, torch.zeros_like(bias).masked_fill(~mask, float("-inf")))


def test_activations_keep_their_scale_and_buffers_their_content(mixed: Extraction) -> None:
    gain = inputs_of(mixed, "torch.softmax")["gain"]
    assert isinstance(gain, torch.Tensor)
    assert 15 < gain.std().item() < 60
    phase = inputs_of(mixed, "torch.cos")["phase"]
    assert isinstance(phase, torch.Tensor)
    assert torch.equal(phase, torch.arange(16) / 8)


def test_a_wrong_reference_is_found_out(write_model: WriteModel) -> None:
    spec, calls = write_model("def forward(self, x):\n    return torch.tanh(x @ x), x.sigmoid()", "[torch.eye(4)]")
    model, _ = load_model(spec)
    exports = export(model, load_examples(calls, model), [])
    candidates, _ = find_candidates(exports, "m", {}, 48)
    (product,) = [c for c in candidates if "tanh" in c.run_source]
    product.run_source = product.run_source.replace("torch.tanh(", "1.01 * torch.tanh(")
    captured = run_all(model, exports, candidates)
    assert captured.whole.exact == 2
    for candidate in candidates:
        agreement = captured.by_candidate[candidate.name]
        assert bool(agreement.failures) == (candidate is product)
    assert "of the tensor's own scale" in captured.by_candidate[product.name].failures[0]


def test_a_part_that_does_not_run_on_drawn_content_is_left_out(write_model: WriteModel, tmp_path: Path) -> None:
    spec, calls = write_model(
        "def __init__(self):\n    super().__init__()\n    self.rows = nn.Parameter(torch.ones(5, 4))\n\n"
        "def forward(self, x, y):\n    return self.rows[x.long()].exp(), torch.softmax(y, -1)",
        "[(torch.tensor([4.0, 4.0, 4.0, -1.0] * 64), torch.ones(8, 8))]",
    )
    result = extract(Options(spec, calls, tmp_path / "out", (HardwareName.H200,)))
    assert ["softmax" in w.problem.reference for w in result.written] == [True]
    (left,) = result.left
    assert "it does not run by itself: IndexError" in left.reason
    assert len([path for path in result.output.iterdir() if path.is_dir()]) == 1


def test_without_a_run_it_says_so_and_still_ranks(write_model: WriteModel, tmp_path: Path) -> None:
    spec, calls = write_model(
        "def __init__(self):\n    super().__init__()\n    self.up = nn.Linear(64, 256, device='meta')\n\n"
        "def forward(self, x):\n    return F.gelu(self.up(x))",
        "[torch.ones(n, 64, device='meta') for n in (4, 9)]",
    )
    result = extract(Options(spec, calls, tmp_path / "out"))
    assert not result.was_run
    assert "meta device" in result.notes[0]
    (row,) = result.rankings["b200"]
    assert row.share == 1.0
    assert "not compared" in (result.output / "README.md").read_text()
    (written,) = result.written
    assert [w.axes["x_dim0"] for w in written.problem.workloads] == [4, 9]
    assert written.problem.heldout[0].axes == {"x_dim0": 7}


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ([{"n": 1}, {"n": 2}], []),
        ([{"n": 16}], []),
        ([{"n": 1}, {"n": 24}, {"n": 128}], [13, 77, 9]),
        ([{"n": 8}, {"n": 12}], [11, 9]),
    ],
    ids=["adjacent", "single", "three", "near"],
)
def test_held_out_sizes_lie_between_the_seen(seen: list[dict[str, int]], expected: list[int]) -> None:
    found = [values["n"] for values in held_out(seen)]
    assert found == expected


def test_held_out_axes_move_together() -> None:
    for values in held_out([{"queries": 1, "keys": 64}, {"queries": 33, "keys": 512}]):
        assert values["queries"] <= values["keys"]
        assert 1 < values["queries"] < 33
        assert 64 < values["keys"] < 512
