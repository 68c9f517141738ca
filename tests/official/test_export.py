"""Writing our kernels as solution.json: what is in the file, what is refused, and the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentcore.cli import main
from agentcore.official import ExportError, OfficialSolution, Origin, export_solution, read_solution, to_json
from agentcore.official.arithmetic import NotExpressible, in_cpp
from agentcore.official.binding import BindingError, binding_source
from agentcore.problems import Definition
from agentcore.vocabulary import HardwareName, Language
from tests.judge.conftest import DOUBLE, workload, write_problem
from tests.judge.test_cli import result

ORIGIN = Origin("twice", "ada", "an example")
KERNEL = {
    Language.CPP: b'extern "C" int kernel_launch(const float* x, float* y, int64_t n) { return 0; }\n',
    Language.CUDA: b'#include "problem.h"\n',
    Language.TORCH: b"def run(x, y): y.copy_(2 * x)\n",
    Language.TRITON: b"def run(x, y): y.copy_(2 * x)\n",
    Language.CUTE: b"def run(x, y): y.copy_(2 * x)\n",
}


def exported(
    language: Language, files: dict[str, bytes] | None = None, hardware: HardwareName | None = None,
    definition: dict[str, Any] = DOUBLE,
) -> dict[str, Any]:
    files = {language.source_name: KERNEL[language], **(files or {})}
    hardware = hardware or (HardwareName.CPU if language is Language.CPP else HardwareName.H200)
    return export_solution(files, Definition.model_validate(definition), language, hardware, ORIGIN)


def sources(solution: dict[str, Any]) -> dict[str, str]:
    return {source["path"]: source["content"] for source in solution["sources"]}


@pytest.mark.parametrize(("language", "theirs", "other"), [
    (Language.CUDA, "cuda_cpp", "cuda"), (Language.CPP, "cpp", "cpp"), (Language.TORCH, "pytorch", "python"),
    (Language.TRITON, "triton", "triton"), (Language.CUTE, "cute_dsl", "python"),
])
def test_every_language_is_written_for_both_dialects_and_read_back(
    language: Language, theirs: str, other: str, tmp_path: Path
) -> None:
    made = exported(language)
    spec = made["spec"]
    assert (spec["languages"], spec["language"]) == ([theirs], other)
    assert spec["destination_passing_style"] is True
    assert spec["binding"] == ("torch" if language.is_compiled else None)
    (tmp_path / "solution.json").write_bytes(to_json(made))
    read = read_solution(tmp_path / "solution.json")
    assert (read.language, read.name, read.author, read.definition) == (language, "twice", "ada", "double_it")
    del spec["languages"]  # as the other dialect has it
    assert OfficialSolution.model_validate(made).language is (Language.TORCH if other == "python" else language)


def test_a_compiled_kernel_brings_the_header_it_includes_and_a_binding_that_allocates_nothing() -> None:
    made = exported(Language.CUDA, {"part.cuh": b"// part\n", "empty.h": b""})
    files = sources(made)
    assert files.keys() == {"kernel.cu", "part.cuh", "empty.h", "problem.h", "kernelyard_binding.cpp"}
    assert files["kernel.cu"] == KERNEL[Language.CUDA].decode() and files["empty.h"] == "\n"
    assert "int kernel_launch(" in files["problem.h"]
    binding = files["kernelyard_binding.cpp"]
    assert made["spec"]["entry_point"] == "kernelyard_binding.cpp::run"
    assert "getCurrentCUDAStream" in binding and "PYBIND11_MODULE(TORCH_EXTENSION_NAME" in binding
    assert "empty" not in binding and "zeros" not in binding


def test_the_generated_header_is_put_in_front_where_the_kernel_leaves_that_to_the_build() -> None:
    text = sources(exported(Language.CPP))["kernel.cpp"]
    assert text == '#include "problem.h"\n#line 1 "kernel.cpp"\n' + KERNEL[Language.CPP].decode()


@pytest.mark.parametrize(("hardware", "targets", "arch"), [
    (HardwareName.H200, ["LOCAL"], "arch=compute_90a,code=sm_90a"),
    (HardwareName.B200, ["B200", "LOCAL"], "arch=compute_100a,code=sm_100a"),
])
def test_the_hardware_decides_targets_and_architecture(
    hardware: HardwareName, targets: list[str], arch: str
) -> None:
    spec = exported(Language.CUDA, hardware=hardware)["spec"]
    assert spec["target_hardware"] == targets
    assert f"-gencode={arch}" in spec["compile_options"]["cuda_cflags"]


def test_python_modules_beside_a_kernel_stay_importable_through_a_generated_entry() -> None:
    alone, with_others = exported(Language.TRITON), exported(Language.TRITON, {"tiles.py": b"SIZE = 1\n"})
    assert alone["spec"]["entry_point"] == "kernel.py::run" and sources(alone).keys() == {"kernel.py"}
    assert with_others["spec"]["entry_point"] == "kernelyard_entry.py::run"
    assert sources(with_others).keys() == {"kernel.py", "tiles.py", "kernelyard_entry.py"}


@pytest.mark.parametrize(("language", "files", "said"), [
    (Language.CUDA, {"parts.cu": b"//"}, "'parts.cu' is a second source"),
    (Language.CPP, {"more/parts.cc": b"//"}, "'more/parts.cc' is a second source"),
    (Language.CUDA, {"kernelyard_binding.cpp": b"//"}, "'kernelyard_binding.cpp' is a second source"),
    (Language.TORCH, {"kernelyard_entry.py": b"#"}, "'kernelyard_entry.py' is the name of the generated file"),
    (Language.CPP, {"data.h": b"\xff\xfe"}, "'data.h' is not UTF-8"),
    (Language.TORCH, {"../x.py": b"#"}, "does not fit the format"),
])
def test_what_cannot_be_exported_is_refused_by_name(language: Language, files: dict[str, bytes], said: str) -> None:
    with pytest.raises(ExportError, match=said.replace(".", r"\.")):
        exported(language, files)


def test_hostile_names_are_bounded_and_printable() -> None:
    origin = Origin("a\x1b]0;title\x07\n" + "x" * 500, "\u202e", "d" * 100_000)
    files, definition = {"kernel.py": KERNEL[Language.TORCH]}, Definition.model_validate(DOUBLE)
    made = export_solution(files, definition, Language.TORCH, HardwareName.H200, origin)
    assert made["name"].isprintable() and len(made["name"]) == 200
    assert made["author"] == "unnamed" and len(made["description"]) == 20_000


# -- the binding -------------------------------------------------------------------------------------------------

SHAPES: dict[str, Any] = DOUBLE | {
    "axes": {
        "n": {"type": "var"}, "m": {"type": "expr", "expression": "ceil_div(n, 3) if n > 2 else min(n, 2)"},
        "k": {"type": "const", "value": 4},
    },
    "inputs": {"x": {"shape": ["n", "2 * n + k"], "dtype": "float32"}, "by": {"shape": None, "dtype": "float32"}},
    "outputs": {"y": {"shape": ["n // 2"], "dtype": "int64"}},
}


def test_axes_come_from_shapes_else_from_their_expression() -> None:
    text = binding_source(Definition.model_validate(SHAPES), Language.CPP)
    assert "= t0.size(0);  // n" in text
    expression = "(int64_t(a0 > int64_t(2)) ? (-floor_div(-a0, int64_t(3))) : std::min<int64_t>(a0, int64_t(2)))"
    assert f"{expression};  // m" in text
    assert 'check_size(t0, "x", 1, ((int64_t(2) * a0) + a2));' in text
    assert 'check_size(t2, "y", 0, floor_div(a0, int64_t(2)));' in text
    assert "double t1  /* by */" in text and "static_cast<float>(t1)" in text


def test_an_axis_that_no_tensor_shows_is_refused_by_name() -> None:
    hidden = SHAPES | {"inputs": {"x": {"shape": ["n * n"], "dtype": "float32"}}, "outputs": SHAPES["outputs"]}
    with pytest.raises(BindingError, match="axis 'n' is no dimension of any tensor by itself"):
        binding_source(Definition.model_validate(hidden), Language.CUDA)
    broken = SHAPES | {"axes": SHAPES["axes"] | {"m": {"type": "expr", "expression": "int(sqrt(n))"}}}
    with pytest.raises(BindingError, match="axis 'm'"):
        binding_source(Definition.model_validate(broken), Language.CUDA)


@pytest.mark.parametrize("text", ["n / 2", "sqrt(n)", "n.real", "n[0]", "x + 1", "1.5 * n", "True", "min(n)", "n if"])
def test_an_expression_outside_whole_numbers_is_not_written(text: str) -> None:
    with pytest.raises(NotExpressible):
        in_cpp(text, {"n": "a0"})


# -- the command -------------------------------------------------------------------------------------------------


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    write_problem(tmp_path / "double_it", DOUBLE, [workload()])
    (tmp_path / "kernel").mkdir()
    (tmp_path / "kernel" / "kernel.cpp").write_bytes(KERNEL[Language.CPP])
    return tmp_path / "kernel"


def export(kernel: Path, *more: str) -> int:
    return main(["export-solution", str(kernel), "--problem", str(kernel.parent / "double_it"), *more])


def test_the_command_writes_a_file_or_to_standard_output(kernel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert export(kernel) == 0
    shown = capsys.readouterr().out
    assert export(kernel, "--output", str(kernel / "out.json")) == 0
    assert (kernel / "out.json").read_text() == shown
    assert json.loads(shown)["name"] == "double_it_cpp_cpu"


def test_a_published_kernel_brings_its_origin_and_leaves_its_records_behind(
    kernel: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (kernel / "result.json").write_text(result({"w0": 1.0}).model_dump_json())
    (kernel / "solution.json").write_text(json.dumps({"problem": "double_it", "agent": "ada", "commit": "c" * 40}))
    assert export(kernel) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["author"] == "ada" and "c" * 40 in made["description"]
    assert sources(made).keys() == {"kernel.cpp", "problem.h", "kernelyard_binding.cpp"}


def test_the_command_says_what_it_cannot_tell(kernel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert export(kernel, "--hardware", "h200") == 2 and "cpp kernels do not run on h200" in capsys.readouterr().err
    (kernel / "kernel.cpp").rename(kernel / "kernel.py")
    assert export(kernel) == 2 and "say which: --language cute" in capsys.readouterr().err
    (kernel / "kernel.py").rename(kernel / "kernel.cu")
    assert export(kernel) == 2 and "give --hardware" in capsys.readouterr().err
    assert export(kernel / "absent") == 2 and "is not a directory" in capsys.readouterr().err
    (kernel / "result.json").write_text("{}")
    assert export(kernel) == 2 and "result.json is no evaluation result: problem" in capsys.readouterr().err
    (kernel / "result.json").write_text(result({}).model_copy(update={"problem": "other"}).model_dump_json())
    assert export(kernel) == 2 and "holds a kernel for other" in capsys.readouterr().err
