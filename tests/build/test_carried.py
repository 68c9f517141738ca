"""Libraries and GPU binaries pasted into a kernel are found; what the compiler itself puts there is not."""

from __future__ import annotations

import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agentcore.build import Build
from agentcore.build.carried import carried
from agentcore.build.toolchain import ToolMissing, find_tool
from agentcore.vocabulary import Language
from tests.build.kernels import KERNEL_CPP, KERNEL_CU


def elf(kind: int, machine: int, *, valid: bool = True) -> bytes:
    """The first bytes of a 64-bit little-endian ELF file."""
    head = b"\x7fELF\x02\x01\x01" if valid else b"\x7fELF\x01\x02\x01"
    return head + bytes(9) + struct.pack("<HH", kind, machine) + bytes(44)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (elf(3, 62), "another program or library"),
        (elf(2, 183), "another program or library"),
        (elf(1, 62), "another program or library"),
        (elf(2, 190), "a GPU binary"),
        (bytes.fromhex("50ed55ba01001000") + bytes(8), "GPU code"),
        (elf(3, 62, valid=False), ""),  # not of this kind of machine
        (elf(9, 62), ""),  # no object file: the four letters alone, as a program that reads ELF files has them
        (elf(3, 40), ""),
        (elf(3, 62)[:19], ""),  # cut off
        (b"", ""),
    ],
)
def test_a_pasted_file_is_named_with_its_place(
    compiled: Callable[..., Build], shared_cache: Path, content: bytes, found: str
) -> None:
    artifact = compiled(KERNEL_CPP, cache_dir=shared_cache).artifact
    assert artifact is not None
    ours = artifact.read_bytes()
    said = carried(ours + content)
    assert said.startswith(found) and bool(said) == bool(found)
    if found:
        assert said.endswith(f"at byte {len(ours)}")


def test_damaged_headers_hide_nothing() -> None:
    assert carried(elf(3, 62) + elf(3, 62)).endswith("at byte 64")
    broken = bytearray(elf(3, 62))
    struct.pack_into("<Q", broken, 0x28, 1 << 60)
    struct.pack_into("<HHH", broken, 0x3A, 64, 0xFFFF, 0xFFFF)
    assert carried(bytes(broken) + elf(2, 190)).startswith("a GPU binary")


def test_the_compilers_own_gpu_code_is_not_foreign_but_the_same_elsewhere_is(
    compiled: Callable[..., Build], shared_cache: Path, tmp_path: Path
) -> None:
    try:
        nvcc = find_tool("nvcc")
    except ToolMissing as error:
        pytest.skip(str(error))
    artifact = compiled(KERNEL_CU, Language.CUDA, cache_dir=shared_cache).artifact
    assert artifact is not None and carried(artifact.read_bytes()) == ""
    for flag in ("-cubin", "-fatbin"):
        binary = tmp_path / f"ready{flag}"
        subprocess.run(
            [nvcc, flag, "-arch=sm_90a", "-x", "cu", "-", "-o", str(binary)], check=True,
            input=b"__global__ void ready(float* y) { y[threadIdx.x] = 1; }",
        )
        assert "GPU" in carried(artifact.read_bytes() + binary.read_bytes())


def test_a_large_file_is_looked_through_quickly() -> None:
    begun = time.process_time()  # whatever else the machine does
    assert carried(elf(3, 62) + b"\x7fEL" * (20 << 20)) == ""
    assert time.process_time() - begun < 10  # it takes a few tenths
