"""Reading solution.json: both dialects, a directory with sources beside, and every way of being refused by name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentcore.official import SolutionError, read_solution
from agentcore.official.reading import is_solution
from agentcore.vocabulary import Language
from tests.official.conftest import RETURNING, extension, solution

CUDA = {"languages": ["cuda_cpp"], "entry_point": "k.cu::run"}


def refusal(path: Path) -> str:
    with pytest.raises(SolutionError) as caught:
        read_solution(path)
    return str(caught.value)


@pytest.mark.parametrize(("languages", "ours"), [
    (["pytorch"], Language.TORCH), (["python"], Language.TORCH), (["triton", "pytorch"], Language.TRITON),
    (["cute_dsl"], Language.CUTE), (["cutile"], Language.TORCH),
])
def test_python_languages_are_ours_by_what_they_are_written_in(
    written: Callable[[Any], Path], languages: list[str], ours: Language
) -> None:
    read = read_solution(written(solution(languages=languages)))
    assert read.language is ours
    assert read.interface == "solution.json: Python, outputs returned"


@pytest.mark.parametrize("languages", [["cuda_cpp"], ["cutlass"], ["cublas", "cuda_cpp"], ["cudnn"]])
def test_cpp_languages_are_cuda_and_bound_by_torch_unless_said_otherwise(
    written: Callable[[Any], Path], languages: list[str]
) -> None:
    read = read_solution(written(solution({"k.cu": "//"}, languages=languages, entry_point="k.cu::run")))
    assert (read.language, read.spec.binding) == (Language.CUDA, "torch")
    assert read.compiled_sources == ("k.cu",)


def test_the_other_dialect_has_one_language_and_another_binding_by_default(written: Callable[[Any], Path]) -> None:
    changed = {"languages": ..., "language": "cuda", "entry_point": "k.cu::run"}
    said = refusal(written(solution({"k.cu": "//"}, **changed)))
    assert ": spec.binding: " in said and "tvm-ffi" in said and "not supported" in said
    read = read_solution(written(solution({"k.cu": "//"}, **changed, binding="torch")))
    assert (read.language, read.spec.binding) == (Language.CUDA, "torch")
    assert read_solution(written(solution(languages=..., language="python"))).language is Language.TORCH


def test_optional_fields_may_be_null_and_outputs_come_last_by_default(written: Callable[[Any], Path]) -> None:
    null = dict.fromkeys(["dependencies", "destination_passing_style", "binding", "compile_options"])
    read = read_solution(written(solution(**null) | {"description": None}))
    assert read.spec.destination_passing_style and read.spec.dependencies == () and read.description == ""


@pytest.mark.parametrize(("content", "said"), [
    ("", "is not JSON"),
    ("[1, 2]", "is not a JSON object"),
    ('{"name": "a", "name": "b"}', "'name' is given twice"),
    ("[" * 100_000, "nested too deeply"),
    (solution(name=...), ": name: Field required"),
    (solution(name=""), ": name: String should have at least 1"),
    (solution(definition=7), ": definition: Input should be a valid string"),
    (solution(spec=None), ": spec: "),
    (solution(languages=[]), ": spec.languages: "),
    (solution(languages=["cobol"]), ": spec.languages[0]: Input should be 'pytorch'"),
    (solution(languages=["pytorch", "cuda_cpp"]), ": spec.languages: mixes C++ and Python: pytorch, cuda_cpp"),
    (solution(target_hardware=[]), ": spec.target_hardware: "),
    (solution(entry_point="run"), ": spec.entry_point: 'run' is not 'file::function'"),
    (solution(entry_point="kernel.py::a.b"), ": spec.entry_point: "),
    (solution(entry_point="kernel.cu::run"), ": spec.entry_point: 'kernel.cu': a pytorch solution starts in .py"),
    (solution(entry_point="other.py::run"), ": sources: spec.entry_point names 'other.py', which is not among them"),
    (solution({"k.cu": "//"}, **CUDA, binding="tvm-ffi"), ": spec.binding: 'tvm-ffi'"),
    (solution({"k.cu": "//"}, **CUDA, binding="rust"), ": spec.binding: 'rust' is not supported here"),
    (solution({"k.cuh": "//"}, languages=["cuda_cpp"], entry_point="k.cuh::run"), ": sources: nothing to compile"),
    (solution({"k.cu": "//"}, **CUDA, compile_options={"cuda_cflags": ["-include", "/etc/passwd"]}),
     ": spec.compile_options.cuda_cflags: flag '-include'"),
    (solution({"k.cu": "//"}, **CUDA, compile_options={"ld_flags": ["-lssl"]}),
     ": spec.compile_options.ld_flags: flag '-lssl'"),
    (solution(sources=[]), ": sources: "),
    (solution({"kernel.py": None}), ": sources[0].content: Field required"),
    (solution("\ud800"), ": sources[0].content: holds a NUL or half a surrogate pair"),
    (solution("#" * (1 << 20) + "\n"), ": sources[0].content: is larger than 1 MiB"),
    (solution({f"m{i}.py": "#" * (1 << 20) for i in range(5)} | {"kernel.py": RETURNING}), "more than 4 MiB together"),
    (solution({f"m{i}.py": "#" for i in range(64)} | {"kernel.py": RETURNING}), ": sources: "),
    (solution({"kernel.py": RETURNING, "KERNEL.py": "#"}), "differ only in case"),
    (solution({"kernel.py": RETURNING, "kernel.py/x": "#"}), "lies below another of the files"),
    (solution(sources=[{"path": "kernel.py", "content": "#"}] * 2), ": sources: 'kernel.py' is there twice"),
])
def test_a_fault_is_named_with_file_and_field(written: Callable[[Any], Path], content: Any, said: str) -> None:
    file = written(content)
    message = refusal(file)
    assert message.startswith(f"{file}:") and said in message
    assert len(message) < 2000


@pytest.mark.parametrize("path", [
    "../kernel.py", "a/../../kernel.py", "/etc/passwd", "", ".", "a//b.py", "a\\b.py", "a\nb.py", "\u202eyp.py",
    "-o.py", ".git/hooks.py", "x" * 500, "/".join("abcdefghij") + ".py", "a\x00.py",
])
def test_a_hostile_path_is_refused(written: Callable[[Any], Path], path: str) -> None:
    message = refusal(written(solution({"kernel.py": RETURNING, path: "#"})))
    assert ": sources[1].path: " in message
    assert all(character.isprintable() for character in message.replace("\n", ""))


def test_a_file_that_is_too_large_a_link_or_a_pipe_is_refused(written: Callable[[Any], Path], tmp_path: Path) -> None:
    file = written(solution())
    (tmp_path / "link.json").symlink_to(file)
    assert "cannot be read" in refusal(tmp_path / "link.json")
    os.mkfifo(tmp_path / "pipe.json")
    assert "is not a regular file" in refusal(tmp_path / "pipe.json")
    with file.open("ab") as stream:
        stream.truncate(17 << 20)
    assert "is larger than 16 MiB" in refusal(file)


def test_the_line_of_a_fault_is_named(tmp_path: Path) -> None:
    file = tmp_path / "solution.json"
    file.write_text(json.dumps(solution(binding=None, entry_point="nowhere"), indent=1))
    line = next(n for n, text in enumerate(file.read_text().splitlines(), 1) if '"entry_point"' in text)
    assert refusal(file).startswith(f"{file}:{line}: spec.entry_point: ")


# -- a directory -------------------------------------------------------------------------------------------------


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """solution.json without contents, and the files beside it."""
    made = extension()
    place = tmp_path / "dir"
    place.mkdir()
    for source in made["sources"]:
        (place / source["path"]).write_text(source.pop("content"))
    (place / "solution.json").write_text(json.dumps(made))
    return place


def test_sources_are_read_from_beside_solution_json(directory: Path) -> None:
    assert read_solution(directory).files == read_solution_files(directory)


def test_without_a_list_every_source_file_beside_it_is_one(directory: Path) -> None:
    data = json.loads((directory / "solution.json").read_text())
    del data["sources"]
    (directory / "solution.json").write_text(json.dumps(data))
    (directory / "README.md").write_text("not a source")
    assert read_solution(directory).files == read_solution_files(directory)


def read_solution_files(directory: Path) -> dict[str, bytes]:
    return {name: (directory / name).read_bytes() for name in ("main.cpp", "twice.h", "twice.cpp")}


def test_a_source_that_is_not_there_is_named(directory: Path) -> None:
    (directory / "twice.h").unlink()
    assert "sources[1]: has no content, and no file 'twice.h' lies beside" in refusal(directory)


@pytest.mark.parametrize("make", ["link", "linked directory", "pipe", "huge"])
def test_a_directory_with_anything_but_plain_files_is_refused(directory: Path, make: str) -> None:
    place = directory / "extra"
    if make == "link":
        (directory / "twice.h").unlink()
        (directory / "twice.h").symlink_to("/etc/passwd")
    elif make == "linked directory":
        place.symlink_to("/etc")
    elif make == "pipe":
        os.mkfifo(place)
    else:
        place.write_bytes(b"#" * ((1 << 20) + 1))
    said = refusal(directory)
    assert ": sources: the directory cannot be read: " in said and "root:" not in said


def test_only_a_directory_with_an_official_solution_is_taken_for_one(directory: Path, tmp_path: Path) -> None:
    assert is_solution(directory) and is_solution(directory / "solution.json")
    published = tmp_path / "published"
    published.mkdir()
    (published / "solution.json").write_text('{"problem": "double_it", "language": "cpp", "commit": "0"}')
    assert not is_solution(published) and not is_solution(tmp_path)


def test_importing_the_format_imports_neither_torch_nor_a_judge() -> None:
    said = "import sys, agentcore.official.cli; print([m for m in ('torch', 'django') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
