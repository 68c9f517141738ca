"""Loads the suite's problems and starting kernels for the tests, builds them with chosen tunables, and calls them."""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from emulator.translate import to_emulator

from agentcore.agents.tunables import parse
from agentcore.build import build
from agentcore.build.cache import BuildCache
from agentcore.build.compile import compile_tree
from agentcore.build.header import entry_source
from agentcore.build.recipe import recipe
from agentcore.problems import Problem, Workload, load_problem
from agentcore.problems.tensors import InputFactory, output_specs
from agentcore.sandbox import find_sandbox
from agentcore.vocabulary import HardwareName, Language
from tests.build.one_unit import Piece, unit_source

ROOT = Path(__file__).resolve().parents[2]
PROBLEMS = tuple(sorted(path.parent.name for path in (ROOT / "problems").glob("*/definition.json")))
"""Every problem of the suite."""
KERNELS = ROOT / "kernels_repo" / "kernels"
CPP_NAMES = tuple(name for name in PROBLEMS if (KERNELS / name / "cpp").is_dir())
CUDA_NAMES = tuple(name for name in PROBLEMS if (KERNELS / name / "cuda").is_dir())
"""Those with a starting kernel in the language."""
_EMULATOR = Path(__file__).with_name("emulator")
# Unique symbols would be shared by all emulated kernels of a process, and with them their shared memory.
_EMULATED = ("-O1", "-std=c++20", "-fPIC", "-pthread", "-fno-gnu-unique", "-w", "-D__CUDACC__")
_copies = itertools.count()
Settings = Mapping[str, str]


def problem(name: str) -> Problem:
    return load_problem(ROOT / "problems" / name)


def kernel_dir(name: str, language: Language) -> Path:
    return KERNELS / name / language.value


def covering_settings(name: str, language: Language) -> list[dict[str, str]]:
    """Few settings that together give every tunable each of its values once; the kernel as it is comes first."""
    tunables = [
        tunable
        for file in sorted(kernel_dir(name, language).iterdir())
        for tunable in parse(file.read_text(), file.name)
    ]
    if not tunables:
        return [{}]
    others = [(t.name, [choice for choice in t.choices if choice != t.value]) for t in tunables]
    most = max(len(choices) for _, choices in others)
    return [{}] + [{n: choices[i % len(choices)] for n, choices in others} for i in range(most)]


def sources(name: str, language: Language, settings: Settings) -> dict[str, str]:
    """The kernel's files with tunables set."""
    files = {file.name: file.read_text() for file in kernel_dir(name, language).iterdir() if file.is_file()}
    for tunable, value in settings.items():
        pattern = re.compile(rf"^(#define {tunable}) \S+", re.M)
        assert any(pattern.search(text) for text in files.values()), f"{name} has no tunable {tunable}"
        files = {file: pattern.sub(rf"\1 {value}", text) for file, text in files.items()}
    return files


def compile_kernel(
    name: str, language: Language, hardware: HardwareName, settings: Settings, place: Path
) -> ctypes.CDLL | Path:
    """Build through agentcore.build; the library where this machine can load it, else the file."""
    tree = place / "source"
    tree.mkdir(parents=True, exist_ok=True)
    for file, text in sources(name, language, settings).items():
        (tree / file).write_text(text)
    built = build(tree, problem(name), language, hardware, cache_dir=place / "cache", sandbox=find_sandbox())
    assert built.report.ok and built.artifact is not None, f"{name} {settings}: {built.report.log}"
    return built.artifact if hardware.is_gpu else ctypes.CDLL(str(built.artifact))


@dataclass(frozen=True, slots=True)
class Variant:
    """A kernel with chosen tunables as a function of this machine's CPU, called as that of a built library is."""

    settings: Settings
    ky_call: Callable[..., int]


def compile_variants(name: str, variants: Sequence[Settings], place: Path) -> list[Variant]:
    """The C++ kernel with each of several settings, built together with the judge's flags."""
    files = {
        Language.CPP.source_name: _together(name, Language.CPP, variants).encode(),
        "problem.h": b"// in each of them\n",
    }
    cache, flags = BuildCache(place / "cache"), recipe(Language.CPP, HardwareName.CPU)
    built = compile_tree(files, {}, Language.CPP, flags, cache, find_sandbox())
    assert built.artifact is not None, f"{name}: {built.report.log}"
    return _loaded(ctypes.CDLL(str(built.artifact)), variants)


def emulate_kernel(name: str, variants: Sequence[Settings], place: Path) -> list[Variant]:
    """The CUDA kernel with each of several settings, built together below ``place``, once, and loaded anew."""
    text = _together(name, Language.CUDA, variants)
    tree = place / hashlib.sha256(text.encode()).hexdigest()[:16]
    library = tree / "kernels.so"
    if not library.is_file():
        tree.mkdir(parents=True, exist_ok=True)
        (tree / "kernels.cpp").write_text(text)
        command = ["g++", *_EMULATED, "-shared", "-fmax-errors=5", f"-I{_EMULATOR / 'include'}"]
        command += ["-include", str(_precompiled_emulator(place)), "kernels.cpp", "-o", library.name]
        done = subprocess.run(command, cwd=tree, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[:4000]
    # A copy, so that what the kernels remember about their device begins anew.
    return _loaded(ctypes.CDLL(str(shutil.copy(library, tree / f"kernels{next(_copies)}.so"))), variants)


def _together(name: str, language: Language, variants: Sequence[Settings]) -> str:
    """One source of the kernel with each of several settings, for g++: the headers take longer than the kernel."""
    own = problem(name)
    entry = entry_source(own.definition, language)
    pieces = []
    for settings in variants:
        texts = sources(name, language, settings)
        if language is Language.CUDA:
            texts = {file: to_emulator(text) for file, text in texts.items()}
        texts[language.source_name] += entry
        files = {file: text.encode() for file, text in texts.items()}
        pieces.append(Piece.of(repr(settings), files, own, language))
    assert len({piece.standard for piece in pieces}) == 1, f"{name}: its settings decide which headers it includes"
    return unit_source(pieces, ("kernel_launch", "ky_call", "ky_abi_version"))


def _loaded(library: ctypes.CDLL, variants: Sequence[Settings]) -> list[Variant]:
    return [Variant(settings, library[f"ky_call_{number}"]) for number, settings in enumerate(variants)]


def _precompiled_emulator(place: Path) -> Path:
    """The emulator's header below ``place``, with its precompiled form, which g++ takes instead, beside it."""
    header = place / "emulator.h"
    if not header.is_file():
        header.write_text(f'#include "{_EMULATOR / "emulator.h"}"\n')
        command = ["g++", *_EMULATED, "-x", "c++-header", str(header), "-o", f"{header}.gch"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[:4000]
    return header


def mismatches(name: str, library: ctypes.CDLL | Variant, workload: Workload, seed: int = 1) -> dict[str, float]:
    """Call the kernel on fresh inputs: output → share of elements outside the tolerance, where there are any."""
    own = problem(name)
    factory = InputFactory(own, "cpu")
    inputs = factory.make(workload, torch.Generator().manual_seed(seed))
    expected = factory.reference(inputs)
    outputs = fresh_outputs(own, workload)
    call(own, library, workload, inputs, outputs)
    wrong = wrong_shares(workload, outputs, expected)
    # Sums in another order carry a few codes of 4- and 8-bit floats over a rounding border; elsewhere none may be off.
    allowed = 1 - workload.tolerance.required_matched_ratio
    coded = {output for output, want in expected.items() if want.dtype.is_floating_point and want.dtype.itemsize == 1}
    return {output: share for output, share in wrong.items() if output not in coded or share > allowed}


def call(
    own: Problem,
    library: ctypes.CDLL | Variant,
    workload: Workload,
    inputs: Mapping[str, torch.Tensor | int | float | bool],
    outputs: Mapping[str, torch.Tensor],
) -> None:
    values = own.definition.axis_values(workload.axes)
    kept: list[object] = []  # what the pointers point to has to outlive the call
    pointers: list[int | None] = []
    for value in (*inputs.values(), *outputs.values()):
        if isinstance(value, torch.Tensor):
            pointers.append(value.data_ptr())
        else:
            kept.append(ctypes.c_double(value) if isinstance(value, float) else ctypes.c_int64(value))
            pointers.append(ctypes.addressof(kept[-1]))
    for axis in (*own.definition.var_axes, *own.definition.expr_axes):
        kept.append(ctypes.c_int64(values[axis]))
        pointers.append(ctypes.addressof(kept[-1]))
    returned = library.ky_call((ctypes.c_void_p * len(pointers))(*pointers), None)
    assert returned == 0, f"kernel_launch returned {returned}"


def fresh_outputs(own: Problem, workload: Workload) -> dict[str, torch.Tensor]:
    """Output tensors filled with what no right answer has: NaN, or the byte 0x5A where a dtype has none."""
    outputs = {}
    for output, (shape, dtype) in output_specs(own, workload).items():
        if dtype.is_floating_point and dtype.itemsize > 1:
            outputs[output] = torch.full(shape, float("nan"), dtype=dtype)
        else:
            raw = torch.full((*shape, dtype.itemsize), 0x5A, dtype=torch.uint8)
            outputs[output] = raw.view(dtype).squeeze(-1)
    return outputs


def decoded(packed: torch.Tensor) -> torch.Tensor:
    """Packed 4-bit floats one by one, the low half of a byte first: twice as many in a row."""
    magnitudes = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
    table = torch.tensor([*magnitudes, *(-value for value in magnitudes)])
    codes = packed.view(torch.uint8)
    return table[torch.stack((codes & 15, codes >> 4), dim=-1).flatten(-2).long()]


def wrong_shares(
    workload: Workload, outputs: Mapping[str, torch.Tensor], expected: Mapping[str, torch.Tensor]
) -> dict[str, float]:
    """Output → share of elements outside the workload's tolerance, where there are any. NaN is outside.

    Integers and bools are compared exactly, as the judge does. Packed 4-bit floats may be given decoded.
    """
    tolerance = workload.tolerance
    shares = {}
    for output, want in expected.items():
        got = outputs[output]
        if not want.dtype.is_floating_point:
            shares[output] = (got != want).double().mean().item()
            continue
        pair = [decoded(t) if t.dtype == torch.float4_e2m1fn_x2 else t for t in (got, want)]
        given, right = pair[0].double(), pair[1].double()
        matches = (given - right).abs() <= tolerance.max_atol + tolerance.max_rtol * right.abs()
        shares[output] = 1 - matches.double().mean().item()
    return {output: share for output, share in shares.items() if share > 0}


def resized(name: str, axes: Mapping[str, int], scalars: Mapping[str, float] | None = None) -> Workload:
    """The problem's first workload at other axis values, and with other scalars where given."""
    first = problem(name).workloads[0]
    data = first.model_dump(mode="json")
    data["axes"] = dict(axes)
    for scalar, value in (scalars or {}).items():
        data["inputs"][scalar] = {"type": "scalar", "value": value}
    return Workload.model_validate(data)


def one_thread() -> None:
    """Keep OpenMP and torch from fighting over the cores of a shared machine."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    torch.set_num_threads(1)
