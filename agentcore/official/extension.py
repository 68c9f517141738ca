"""Building a C++ or CUDA solution as a torch extension: the flags of ``torch.utils.cpp_extension``, in our sandbox.

Each source has a compiler of its own, at the same time as the others, and the results are linked; torch itself is not
imported for it and ninja is not needed. torch's headers make this slow (tens of seconds), so results are kept by
content. Not for loading what was built.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sysconfig
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from agentcore.build.binary import with_resources
from agentcore.build.cache import ARTIFACT, BuildCache
from agentcore.build.compile import Build
from agentcore.build.files import empty_file, read_artifact, write_tree
from agentcore.build.log import bounded_log, clean_log
from agentcore.build.toolchain import compiler, cuobjdump_version, host_cpu
from agentcore.judge.result import BuildReport
from agentcore.official.flags import language_standard, without_architectures
from agentcore.official.solution import CUDA_SUFFIXES, CompileOptions, OfficialLanguage, OfficialSolution
from agentcore.official.staging import ADAPTER, EXTENSION, EXTENSION_NAME, adapter
from agentcore.official.toolchain import (
    TorchFiles,
    cuda_includes,
    cuda_link_flags,
    cutlass_includes,
    python_include,
    torch_files,
)
from agentcore.problems import Definition
from agentcore.sandbox import GIB, Completed, Limits, Sandbox
from agentcore.sandbox.view import host_view
from agentcore.vocabulary import HardwareName, Language

EXTENSION_VERSION = 1
"""Raised when the same key would give another result."""

NVCC_FLAGS = (
    "-D__CUDA_NO_HALF_OPERATORS__", "-D__CUDA_NO_HALF_CONVERSIONS__", "-D__CUDA_NO_BFLOAT16_CONVERSIONS__",
    "-D__CUDA_NO_HALF2_OPERATORS__", "--expt-relaxed-constexpr",
)
"""What torch.utils.cpp_extension gives nvcc (COMMON_NVCC_FLAGS there)."""

LIMITS = Limits(memory_bytes=16 * GIB, processes=128, file_bytes=GIB, cpu_s=400, wall_s=900, tmp_bytes=GIB)
_LOG_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Plan:
    """How a solution is compiled here. Flags name no place of this host; the include directories do."""

    language: Language
    arch: str
    compilers: dict[str, str]
    host: tuple[str, ...]
    device: tuple[str, ...]
    includes: tuple[Path, ...]
    link: tuple[str, ...]
    torch: TorchFiles

    @property
    def said(self) -> str:
        """The compilers and torch, for the report."""
        return ", ".join((*self.compilers.values(), f"torch {self.torch.version}"))

    @property
    def unseen(self) -> list[Path]:
        """Of what is needed, what a sandbox does not show anyway."""
        seen = host_view(True).paths
        needed = (self.torch.root, *self.includes)
        return [path for path in needed if not any(path.is_relative_to(place) for place in seen)]

    def command(self, source: str, target: str) -> list[str]:
        """The compiler's call for one source, from the directory of the sources."""
        device = Path(source).suffix in CUDA_SUFFIXES
        places = [word for include in self.includes for word in ("-isystem", str(include))]
        tool = str(compiler(Language.CUDA if device else Language.CPP).path)
        # With ./ in front, so that no name is taken for an option or a file of options.
        return [tool, *(self.device if device else self.host), "-I.", *places, "-c", f"./{source}", "-o", target]


def plan(solution: OfficialSolution, hardware: HardwareName) -> Plan:
    """The plan for one solution. Raises ToolMissing or FileMissing; ValueError if it is not made for the hardware."""
    language = solution.language
    if language not in (Language.CUDA, Language.CPP) or (language is Language.CUDA) != hardware.is_gpu:
        raise ValueError(f"a solution in {', '.join(solution.spec.languages)} is not compiled for {hardware}")
    cuda = hardware.is_gpu
    torch = torch_files()
    options = solution.spec.compile_options or CompileOptions(cuda_cflags=(), ld_flags=())
    common = [f"-DTORCH_EXTENSION_NAME={EXTENSION_NAME}", "-DTORCH_API_INCLUDE_EXTENSION_H"]
    if cuda and torch.needs_no_cmake_macros:
        common.append("-DC10_CUDA_NO_CMAKE_CONFIGURE_FILE")
    libraries = [flag.removeprefix("-l") for flag in options.ld_flags if flag.startswith("-l")]
    if cuda:
        libraries = [*dict.fromkeys([*libraries, *_implied_libraries(solution), "cudart"])]
    link = [
        *(flag for flag in options.ld_flags if not flag.startswith("-l")),
        *(cuda_link_flags(libraries) if cuda else (f"-l{name}" for name in libraries)),
        f"-L{torch.library_dir}", *(f"-l{name}" for name in torch.libraries(cuda)),
    ]
    includes = [*torch.includes, *(cuda_includes() if cuda else ()), python_include()]
    if _uses_cutlass(solution):
        includes += cutlass_includes()
    compilers = {"g++": compiler(Language.CPP).version}
    if cuda:
        compilers = {"nvcc": compiler(Language.CUDA).version}
    return Plan(
        language=language, arch=hardware.arch, compilers=compilers,
        host=("-fPIC", "-fdiagnostics-color=never", "-fmax-errors=50", *common, *_optimised(options.cflags)),
        device=(
            *common, *NVCC_FLAGS, f"-gencode=arch={hardware.arch.replace('sm_', 'compute_')},code={hardware.arch}",
            "-Xcompiler=-fPIC,-fdiagnostics-color=never", "-Xptxas=-v",
            *_optimised(without_architectures(options.cuda_cflags)),
        ),
        includes=tuple(includes), link=tuple(link), torch=torch,
    )


def _optimised(flags: Sequence[str]) -> tuple[str, ...]:
    """The flags with a language standard that torch's headers can be read in, and -O3 where they say nothing."""
    rest, standard = language_standard(flags)
    level = () if any(re.fullmatch(r"-O\w*|--optimize=\d", flag) for flag in rest) else ("-O3",)
    return *level, *rest, standard


def _implied_libraries(solution: OfficialSolution) -> list[str]:
    named = {*solution.spec.languages, *(dependency.lower() for dependency in solution.spec.dependencies)}
    wanted = {"cublas": ["cublas", "cublasLt"], "cudnn": ["cudnn"]}
    return [library for name, libraries in wanted.items() if name in named for library in libraries]


def _uses_cutlass(solution: OfficialSolution) -> bool:
    named = (dependency.lower() for dependency in solution.spec.dependencies)
    return OfficialLanguage.CUTLASS in solution.spec.languages or any(name.startswith("cutlass") for name in named)


def build_extension(
    solution: OfficialSolution, definition: Definition, hardware: HardwareName, *, cache_dir: Path, sandbox: Sandbox
) -> Build:
    """Compile and link a C++ or CUDA solution. The artefact is ``kernel.so``; the adapter that loads it lies beside.

    A solution at fault gives a report that is not ``ok``. Raises ToolMissing, FileMissing, CacheError, SandboxError,
    and ValueError if the solution is not made for the hardware. On a host whose torch has no CUDA, a CUDA solution is
    compiled and linked, but nothing can load the result.
    """
    plan_ = plan(solution, hardware)
    text = adapter(solution, definition).encode()
    key = _key(plan_, solution, text)
    cache = BuildCache(cache_dir)
    cached = cache.get(key)
    if cached is not None:
        report, artifact = cached
        return Build(report.model_copy(update={"cached": True, "sandbox": sandbox.kind}), artifact)
    with cache.workplace() as place:
        return _Work(place, plan_, solution, sandbox).build(key, cache, text)


def _key(plan_: Plan, solution: OfficialSolution, text: bytes) -> str:
    parts = {
        "extension": EXTENSION_VERSION, "arch": plan_.arch, "compilers": plan_.compilers, "host": plan_.host,
        "device": plan_.device, "includes": [str(p) for p in plan_.includes], "link": plan_.link,
        "torch": plan_.torch.digest, "python": sysconfig.get_config_var("SOABI"), "cpu": host_cpu(),
        "inspector": cuobjdump_version() if plan_.language is Language.CUDA else "",
        "adapter": hashlib.sha256(text).hexdigest(), "solution": solution.digest,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


class _Work:
    """One build in a workplace of its own."""

    def __init__(self, place: Path, plan_: Plan, solution: OfficialSolution, sandbox: Sandbox) -> None:
        self.place, self.plan, self.solution, self.sandbox = place, plan_, solution, sandbox
        self.source = place / "source"
        self.begun = time.monotonic()

    def build(self, key: str, cache: BuildCache, text: bytes) -> Build:
        write_tree(self.source, self.solution.files)
        sources = self.solution.compiled_sources
        with ThreadPoolExecutor(max_workers=min(len(sources), os.cpu_count() or 1)) as pool:
            compiled = list(pool.map(self._compile, range(len(sources)), sources))
        steps = list(zip(sources, (done for done, _ in compiled), strict=True))
        objects: dict[str, bytes] = {}
        for number, (done, content) in enumerate(compiled):
            if done.returncode != 0 or content is None:
                return self._failed(steps, key, done, "" if done.returncode else "the compiler left no object file")
            objects[f"{number}.o"] = content
        linked, artifact, reason = self._link(objects)
        steps.append(("linking", linked))
        if artifact is None:
            return self._failed(steps, key, linked, reason)
        logs = "\n".join(clean_log(done.stdout) for _, done in steps)
        report = self._report(steps, key).model_copy(update={"ok": True})
        if self.plan.language is Language.CUDA:
            report = with_resources(report, artifact, logs, self.place, self.sandbox)
        return Build(report, cache.put(key, report, artifact, self.place, {ADAPTER: text}))

    def _compile(self, number: int, source: str) -> tuple[Completed, bytes | None]:
        out = empty_file(self.place / f"object{number}" / "object.o")
        done = self._run(self.plan.command(source, f"../{out.parent.name}/{out.name}"), [self.source], out)
        return done, read_artifact(out)[0] if done.returncode == 0 else None

    def _link(self, objects: dict[str, bytes]) -> tuple[Completed, bytes | None, str]:
        write_tree(self.place / "objects", objects)
        out = empty_file(self.place / "linked" / EXTENSION)
        command = [
            str(compiler(Language.CPP).path), "-shared", "-Wl,-z,noexecstack",
            *(f"../objects/{name}" for name in objects), *self.plan.link, "-o", f"../{out.parent.name}/{out.name}",
        ]
        done = self._run(command, [self.source, self.place / "objects"], out)
        if done.returncode != 0:
            return done, None, ""
        return done, *read_artifact(out)

    def _run(self, command: list[str], readable: list[Path], out: Path) -> Completed:
        return self.sandbox.run(
            command, readable=[*readable, *self.plan.unseen], writable=[out], cwd=self.source,
            limits=replace(LIMITS, output_bytes=_LOG_BYTES), env={"LC_ALL": "C", "LANG": "C"}, merge_stderr=True,
        )

    def _failed(self, steps: list[tuple[str, Completed]], key: str, done: Completed, reason: str) -> Build:
        report = self._report(steps, key)
        timed_out = done.timed_out or done.returncode == 128 + 24  # SIGXCPU
        if timed_out:
            reason = f"the compiler was stopped after {done.seconds:.0f} s"
        elif done.memory_message:
            reason = f"error: the compiler ran {done.memory_message}"
        elif not reason and not report.log:
            reason = f"the compiler ended with status {done.returncode} and said nothing"
        log = f"{reason}\n{report.log}".strip() if reason else report.log
        return Build(report.model_copy(update={"log": log}), None, timed_out)

    def _report(self, steps: list[tuple[str, Completed]], key: str) -> BuildReport:
        said = [(name, clean_log(done.stdout)) for name, done in steps]
        log, cut = bounded_log("\n".join(f"{name}:\n{text}" for name, text in said if text.strip()))
        flags = [*self.plan.host, *(self.plan.device if self.plan.language is Language.CUDA else ())]
        return BuildReport(
            ok=False, language=self.plan.language, arch=self.plan.arch, compiler=self.plan.said, flags=flags, key=key,
            seconds=round(time.monotonic() - self.begun, 4), log=log,
            log_truncated=cut or any(done.truncated for _, done in steps), sandbox=self.sandbox.kind,
            memory_limit=self.sandbox.memory_limit,
        )


assert EXTENSION == ARTIFACT
