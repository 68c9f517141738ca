"""The programs that sanitizers watch: how they are compiled, from the judge's own recipe, and cached under other keys.

Not for running them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path

from agentcore.build.cache import BuildCache
from agentcore.build.compile import Build, compile_tree
from agentcore.build.header import entry_source, problem_header
from agentcore.build.recipe import ENTRY, Recipe, recipe
from agentcore.problems import Problem
from agentcore.sandbox import Sandbox
from agentcore.sanitizer.report import Tool
from agentcore.vocabulary import HardwareName, Language

PROGRAM_DIR = Path(__file__).resolve().parent / "program"


class Variant(StrEnum):
    """One way of building a kernel for tools. AddressSanitizer and UBSan share a program; ThreadSanitizer cannot."""

    ADDRESS = "address"
    THREAD = "thread"
    DEVICE = "device"

    @property
    def sources(self) -> tuple[str, ...]:
        return ("driver.cpp", "openmp_order.cpp") if self is Variant.THREAD else ("driver.cpp",)


def variant_of(tool: Tool) -> Variant:
    """The program that a tool watches."""
    if tool in (Tool.ADDRESS, Tool.UNDEFINED):
        return Variant.ADDRESS
    return Variant.THREAD if tool is Tool.THREAD else Variant.DEVICE


def sanitizer_recipe(variant: Variant, language: Language, hardware: HardwareName) -> Recipe:
    """The compiler call of a variant. Raises ToolMissing; ValueError if language and hardware do not go together."""
    judged = recipe(language, hardware)
    if variant is Variant.DEVICE:
        # The code that is measured, with line numbers: the tool works on the machine code.
        flags = (*(flag for flag in judged.flags if flag != "-shared"), "-lineinfo", "-DKY_CUDA")
        return replace(judged, flags=flags)
    checks = {
        # Everything is reported and survived, so that one run finds more than the first fault.
        Variant.ADDRESS: ("-fsanitize=address,undefined", "-fsanitize-recover=all"),
        # What stands in front of libgomp must be found by it too.
        Variant.THREAD: ("-fsanitize=thread", "-rdynamic", "-ldl"),
    }[variant]
    kept = (flag for flag in judged.flags if flag not in ("-O3", "-shared", "-fPIC"))
    flags = ("-O1", "-g", "-fno-omit-frame-pointer", *kept, *checks)
    limits = replace(judged.limits, cpu_s=180, wall_s=300)  # instrumented code is several times as long
    return replace(judged, flags=flags, limits=limits)


def build_variant(
    variant: Variant,
    files: Mapping[str, bytes],
    problem: Problem,
    language: Language,
    hardware: HardwareName,
    *,
    cache_dir: Path,
    sandbox: Sandbox,
) -> Build:
    """Build a kernel's ``files`` as a program of this variant; its artefact is not executable yet.

    Raises ToolMissing, CacheError, SandboxError, and ValueError as :func:`sanitizer_recipe` does.
    """
    tree = {**files, "problem.h": problem_header(problem.definition, language).encode()}
    generated = {ENTRY[language]: entry_source(problem.definition, language).encode()}
    chosen, cache = sanitizer_recipe(variant, language, hardware), BuildCache(cache_dir)
    for name in variant.sources:
        source = (PROGRAM_DIR / name).read_bytes()
        if variant is Variant.DEVICE:
            generated[name] = source
            continue
        built = _driver_object(name, source, language, chosen, cache, sandbox)
        if built.artifact is None:
            return built
        generated[f"{Path(name).stem}.o"] = built.artifact.read_bytes()
    return compile_tree(tree, generated, language, chosen, cache, sandbox)


def _driver_object(
    name: str, source: bytes, language: Language, chosen: Recipe, cache: BuildCache, sandbox: Sandbox
) -> Build:
    """A source of the driver compiled by itself, once for all kernels: it takes as long as a kernel does."""
    linked = ("-Wl,", "-rdynamic", "-l", "-I", "-include", "problem.h")
    flags = ("-c", *(flag for flag in chosen.flags if not flag.startswith(linked)))
    # Reports name it as if it had been compiled beside the kernel.
    files = {language.source_name: f'#line 1 "../generated/{name}"\n'.encode() + source}
    return compile_tree(files, {}, language, replace(chosen, flags=flags), cache, sandbox)
