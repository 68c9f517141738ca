"""A kernel's language is seen from its files; where it is not, the message says what to choose from."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcore.cli import main
from agentcore.kernel_language import LanguageUnclear, language_of
from agentcore.vocabulary import Language
from tests.judge.conftest import DOUBLE, DOUBLE_KERNEL, whole_kernel, workload, write_kernel, write_problem


@pytest.fixture
def problem(tmp_path: Path) -> Path:
    tmp_path.chmod(0o755)
    return write_problem(tmp_path / "problems" / "double_it", DOUBLE, [workload()])


@pytest.mark.parametrize(
    ("directory", "files", "language"),
    [
        ("mine", ["kernel.cu", "tile.cuh"], Language.CUDA),
        ("mine", ["kernel.cpp", "helper.cpp", "notes.py"], Language.CPP),
        ("cuda", ["kernel.cu", "kernel.cpp"], Language.CUDA),
        ("triton", ["kernel.py"], Language.TRITON),
        ("cute-h200", ["kernel.py"], Language.CUTE),
    ],
)
def test_the_source_tells_and_the_directorys_name_where_it_leaves_several(
    tmp_path: Path, directory: str, files: list[str], language: Language
) -> None:
    root = tmp_path / directory
    root.mkdir()
    for name in files:
        (root / name).write_text("")
    assert language_of(root) is language


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (["kernel.py"], ["kernel.py", "--language cute", "--language triton", "or --language torch"]),
        (["kernel.cu", "kernel.cpp"], ["kernel.cu and kernel.cpp", "--language cuda", "or --language cpp"]),
        (["main.cu"], ["holds none of kernel.cu", "kernel.py"]),
    ],
)
def test_what_is_unclear_is_asked_for(tmp_path: Path, files: list[str], words: list[str]) -> None:
    root = tmp_path / "mine"
    root.mkdir()
    for name in files:
        (root / name).write_text("")
    with pytest.raises(LanguageUnclear) as caught:
        language_of(root)
    for word in (str(root), *words):
        assert word in str(caught.value)


def test_judge_needs_no_language_for_a_compiled_kernel(
    problem: Path, tmp_path: Path, cache_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = write_kernel(tmp_path / "kernel", whole_kernel(DOUBLE_KERNEL, problem))
    options = ["--cache-dir", str(cache_dir), "--baseline", "none", "--quick"]
    main(["judge", str(problem), str(kernel), *options])
    assert "double_it [cpp] on" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["judge", "ab"])
def test_a_python_kernel_asks_in_one_line(
    problem: Path, tmp_path: Path, cache_dir: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    kernel = write_kernel(tmp_path / "kernel", "def run(x, y): y.copy_(2 * x)\n", Language.TORCH)
    kernels = [str(kernel)] * (2 if command == "ab" else 1)
    assert main([command, str(problem), *kernels, "--cache-dir", str(cache_dir)]) == 2
    said = capsys.readouterr().err.strip()
    assert said.startswith(f"kernelyard {command}: {kernel}: kernel.py can be several languages; say which:")
    assert "\n" not in said


def test_a_source_instead_of_its_directory_is_told_so(
    problem: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = write_kernel(tmp_path / "kernel", "int x;\n")
    assert main(["judge", str(problem), str(kernel / "kernel.cpp")]) == 2
    assert f"name the directory that holds it: {kernel}\n" in capsys.readouterr().err
