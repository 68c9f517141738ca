"""What cannot be used says where and why; sizes that a model fixes, or branches on, are told apart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agentcore.cli import main
from agentcore.extract.candidates import find_candidates
from agentcore.extract.errors import ExtractError
from agentcore.extract.export import export
from agentcore.extract.extraction import Options, extract
from agentcore.extract.source import load_examples, load_model

WriteModel = Callable[[str, str], tuple[str, str]]

DOUBLE = "def forward(self, x):\n    return x * 2"


def test_a_branch_on_content_is_refused_with_reason_and_line(
    write_model: WriteModel, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    body = "def forward(self, x):\n    if x.sum() > 0:\n        return x\n    return -x"
    spec, calls = write_model(body, "[torch.ones(3)]")
    assert main(["extract", spec, "--example", calls, "--output", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert "torch.export refuses the model" in error
    assert "data-dependent" in error.lower()
    assert "model.py:8: if x.sum() > 0" in error
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("body", "examples", "message"),
    [
        (DOUBLE, "[(torch.ones(3), 1)]", "example 0: does not fit forward(x)"),
        (DOUBLE, "[torch.ones(3), torch.ones(3, 3)]", "of 1 dimensions in example 0, torch.float32 of 2 in example 1"),
        (DOUBLE, "[]", "gives 0 example calls; give 1 to 32"),
        (DOUBLE, "1 / 0", "calls.py: examples() failed: ZeroDivisionError: division by zero (at"),
        ("def forward(self, x, n):\n    return x", "[(torch.ones(3), 1), (torch.ones(3), 2)]", "is 1 in example 0"),
        ("def __init__(self, width):\n    super().__init__()", "[torch.ones(3)]", "name a function without arguments"),
    ],
    ids=["arguments", "dimensions", "none", "fails", "numbers", "constructor"],
)
def test_unusable_files_are_named(write_model: WriteModel, body: str, examples: str, message: str) -> None:
    spec, calls = write_model(body, examples)
    with pytest.raises(ExtractError) as caught:
        load_examples(calls, load_model(spec)[0])
    assert message in str(caught.value)


def test_absent_names_and_files_are_named(write_model: WriteModel, tmp_path: Path) -> None:
    spec, calls = write_model(DOUBLE, "[]")
    file = Path(spec.removesuffix(":Model"))
    file.write_text(
        f"from functools import partial\nfrom torch.nn import Linear\n{file.read_text()}\nWIDTH = 3\nready = Model()\n"
        "def build():\n    return Model()\n"
    )
    with pytest.raises(ExtractError, match=r"defines no Modle; it has Model, ready, build$"):
        load_model(spec.replace(":Model", ":Modle"))
    with pytest.raises(ExtractError, match=r"defines no example; it has examples$"):
        load_examples(f"{calls}:example", load_model(spec)[0])
    with pytest.raises(ExtractError, match="there is no such file"):
        load_model(f"{tmp_path / 'absent.py'}:Model")
    with pytest.raises(ExtractError, match=r"say which model, as in module\.py:Model"):
        load_model(spec.removesuffix(":Model"))


def test_a_directory_with_something_in_it_is_left_alone(write_model: WriteModel, tmp_path: Path) -> None:
    spec, calls = write_model(DOUBLE, "[torch.ones(3)]")
    with pytest.raises(ExtractError, match="exists and is not empty"):
        extract(Options(spec, calls, tmp_path))


def test_parts_that_are_too_large_are_left_out(write_model: WriteModel, tmp_path: Path) -> None:
    spec, calls = write_model(DOUBLE, "[torch.ones(1024)]")
    with pytest.raises(ExtractError, match=r"no part of the model can become a problem: .* MiB .--max-gib"):
        extract(Options(spec, calls, tmp_path / "out", max_bytes=4096))


def test_dtypes_that_problems_do_not_hold_are_left_out(write_model: WriteModel) -> None:
    spec, calls = write_model(
        "def forward(self, x):\n    return torch.fft.fft(x), F.softmax(x, -1)", "[torch.ones(4, 8)]"
    )
    model, _ = load_model(spec)
    candidates, left = find_candidates(export(model, load_examples(calls, model), []), "m", {}, 48)
    assert any("complex64; problems hold" in item.reason for item in left)
    assert any("softmax" in c.run_source for c in candidates)


def test_a_size_the_model_fixes_is_exported_per_shape(write_model: WriteModel) -> None:
    body = "def forward(self, x):\n    return torch.cat([x[:, i : i + 1].exp() for i in range(x.shape[1])], 1)"
    spec, calls = write_model(body, "[torch.ones(2, 3), torch.ones(2, 2)]")
    model, _ = load_model(spec)
    notes: list[str] = []
    exports = export(model, load_examples(calls, model), notes)
    assert [[number for number, _ in e.calls] for e in exports] == [[0], [1]]
    assert "exported once per shape" in notes[0]


def test_calls_that_branch_on_a_size_get_graphs_of_their_own(write_model: WriteModel) -> None:
    body = "def forward(self, x):\n    return x.exp() if x.shape[0] > 20 else x.sigmoid()"
    spec, calls = write_model(body, "[torch.ones(40), torch.ones(10), torch.ones(7), torch.ones(24)]")
    model, _ = load_model(spec)
    notes: list[str] = []
    exports = export(model, load_examples(calls, model), notes)
    assert [[number for number, _ in e.calls] for e in exports] == [[0, 3], [1, 2]]
    assert notes[0].startswith("example 1 takes another way through the model: Guard failed: x.size()[0] >= 21")
