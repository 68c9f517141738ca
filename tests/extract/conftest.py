"""Models of a few lines, and the two demonstration models extracted once for all tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from agentcore.extract.export import Exported, export
from agentcore.extract.extraction import Options, extract
from agentcore.extract.result import Extraction
from agentcore.extract.source import load_examples, load_model
from agentcore.vocabulary import HardwareName

MODELS = Path(__file__).parent / "models"

WriteModel = Callable[[str, str], tuple[str, str]]


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    torch.set_num_threads(1)  # the machine is shared with other tests


@pytest.fixture
def write_model(tmp_path: Path) -> WriteModel:
    """``write_model(body of class Model, list of example calls)`` gives the two arguments of the command line."""

    def write(body: str, examples: str) -> tuple[str, str]:
        head = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n\n"
        indented = "\n".join(f"    {line}" for line in body.strip("\n").splitlines())
        (tmp_path / "model.py").write_text(f"{head}class Model(nn.Module):\n{indented}\n")
        (tmp_path / "calls.py").write_text(f"import torch\n\n\ndef examples():\n    return {examples}\n")
        return f"{tmp_path / 'model.py'}:Model", str(tmp_path / "calls.py")

    return write


@pytest.fixture
def export_model(write_model: WriteModel) -> Callable[[str, str], Exported]:
    """The one graph of a model of a few lines."""

    def make(body: str, examples: str) -> Exported:
        spec, calls = write_model(body, examples)
        model, _ = load_model(spec)
        (exported,) = export(model, load_examples(calls, model), [])
        return exported

    return make


@pytest.fixture(scope="session")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Extraction:
    """The Llama-style decoder, extracted."""
    file = str(MODELS / "llama_decoder.py")
    return extract(Options(f"{file}:decoder", file, tmp_path_factory.mktemp("decoder"), (HardwareName.H200,)))


@pytest.fixture(scope="session")
def denoiser(tmp_path_factory: pytest.TempPathFactory) -> Extraction:
    """The diffusion transformer, extracted."""
    file = str(MODELS / "diffusion_block.py")
    return extract(Options(f"{file}:denoiser", file, tmp_path_factory.mktemp("denoiser"), (HardwareName.H200,)))
