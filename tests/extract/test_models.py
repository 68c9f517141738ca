"""Things that models do which a graph does not show at once: updated buffers, flattened batches, sizes from content."""

from __future__ import annotations

from collections.abc import Callable

import torch

from agentcore.extract.candidates import Candidate, Left, find_candidates
from agentcore.extract.capture import Captured, run_all
from agentcore.extract.export import export
from agentcore.extract.source import load_examples, load_model

WriteModel = Callable[[str, str], tuple[str, str]]


def taken_apart(write_model: WriteModel, body: str, calls: str) -> tuple[list[Candidate], list[Left], Captured]:
    spec, file = write_model(body, calls)
    model, _ = load_model(spec)
    exports = export(model, load_examples(file, model), [])
    candidates, left = find_candidates(exports, "model", {}, 48)
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    captured = run_all(model, exports, candidates)
    for name, buffer in model.named_buffers():
        assert torch.equal(buffer, before[name]), "the operator's model is left as it was"
    for candidate in candidates:
        agreement = captured.by_candidate[candidate.name]
        assert agreement.comparisons and not agreement.failures
    assert captured.whole.comparisons and not captured.whole.failures
    return candidates, left, captured


def test_a_cache_that_the_model_writes_becomes_an_output(write_model: WriteModel) -> None:
    candidates, left, _ = taken_apart(
        write_model,
        """
def __init__(self):
    super().__init__()
    self.register_buffer("keys", torch.zeros(1, 16, 8))
    self.project = nn.Linear(8, 8)

def forward(self, x, places):
    self.keys[:, places] = self.project(x)
    return torch.softmax(x @ self.keys.transpose(1, 2), -1)
""",
        "[(torch.ones(1, n, 8), torch.arange(n) + 2) for n in (2, 5, 9)]",
    )
    assert not left
    (writing,) = [c for c in candidates if "aten.index_put" in c.run_source]
    assert "keys" in writing.input_names
    assert [len(c.seen()) for c in candidates] == [3] * len(candidates)


def test_a_flattened_batch_has_a_border_that_shows_its_sizes(write_model: WriteModel) -> None:
    candidates, left, _ = taken_apart(
        write_model,
        """
def __init__(self):
    super().__init__()
    self.up = nn.Linear(8, 12)

def forward(self, x):
    flat = self.up(x.reshape(-1, 8)).relu()
    return flat.view(x.shape[0], x.shape[1], 3, 4).cumsum(1)
""",
        "[torch.randn(2, 3, 8), torch.randn(5, 4, 8)]",
    )
    assert not left
    (summed,) = [c for c in candidates if "cumsum" in c.run_source]
    assert summed.input_names == ["up_view"]
    assert [dict(values) for values in summed.seen()] == [{"x_dim0": 2, "x_dim1": 3}, {"x_dim0": 5, "x_dim1": 4}]


def test_sizes_that_follow_from_content_are_a_border(write_model: WriteModel) -> None:
    candidates, left, _ = taken_apart(
        write_model,
        "def forward(self, x):\n    y = torch.tanh(x @ x)\n    return y[torch.nonzero(y[:, 0] > 0)[:, 0]].exp()",
        "[torch.randn(8, 8)]",
    )
    assert any("tanh" in c.run_source for c in candidates)
    assert not any("exp" in c.run_source for c in candidates)
    assert {"aten.nonzero.default", "aten.exp.default"} <= {item.what for item in left}


def test_what_a_model_draws_is_left_out_and_the_rest_agrees(write_model: WriteModel) -> None:
    _, left, captured = taken_apart(
        write_model,
        "def forward(self, x):\n    y = torch.softmax(x, -1)\n    return torch.tanh(y + torch.randn_like(y))",
        "[torch.randn(3, 8), torch.randn(5, 8)]",
    )
    assert [item.what for item in left] == ["aten.randn_like.default"]
    assert captured.whole.failures == [] and captured.whole.exact == 2
