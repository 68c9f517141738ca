"""Compiling only the device's half of a CUDA kernel, which reads the host's half too: about half of a build's time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from agentcore.build import Build
from agentcore.build.cache import BuildCache
from agentcore.build.compile import compile_tree
from agentcore.build.header import problem_header
from agentcore.build.recipe import recipe
from agentcore.problems import Problem
from agentcore.sandbox import Sandbox
from agentcore.vocabulary import HardwareName, Language

_KEPT = ("-O", "-std", "-gencode", "-I", "-include", "problem.h", "-Xptxas")


def compile_device_half(
    files: Mapping[str, bytes], problem: Problem, hardware: HardwareName, cache_dir: Path, sandbox: Sandbox
) -> Build:
    """The kernel's files as a GPU binary, with the flags of a build that are for it."""
    whole = recipe(Language.CUDA, hardware)
    half = replace(whole, flags=("-cubin", *(flag for flag in whole.flags if flag.startswith(_KEPT))))
    tree = {**files, "problem.h": problem_header(problem.definition, Language.CUDA).encode()}
    return compile_tree(tree, {}, Language.CUDA, half, BuildCache(cache_dir), sandbox)
