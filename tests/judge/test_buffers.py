"""Shared memory of the CPU target: what the other side can do with an input, and what the judge sees of an output."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch

from agentcore.judge.host_buffers import HostBuffers, SharedMemory
from agentcore.judge.layout import GUARD_BYTES, Layout, Parameter
from agentcore.sandbox import Limits, Sandbox
from tests.judge.conftest import open_descriptors

ATTACK = '''
import ctypes, errno, json, mmap, os, sys
fd, libc, outcome = int(sys.argv[1]), ctypes.CDLL(None, use_errno=True), {}
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
def attempt(name, action):
    try:
        action()
        outcome[name] = "done"
    except (OSError, PermissionError) as error:
        outcome[name] = errno.errorcode.get(error.errno, str(error))
def protect():
    address = libc.mmap(None, 4096, 1, 1, fd, 0)
    if libc.mprotect(address, 4096, 3) != 0:
        raise OSError(ctypes.get_errno(), "mprotect")
    ctypes.memset(address, 0x41, 16)
def own_memory():
    address = libc.mmap(None, 4096, 1, 1, fd, 0)
    memory = os.open("/proc/self/mem", os.O_RDWR)
    os.pwrite(memory, b"A" * 16, address)
def reopen():
    again = os.open(f"/proc/self/fd/{fd}", os.O_RDWR)
    if os.write(again, b"A" * 16) != 16:
        raise OSError(errno.EIO, "short")
def reopen_map():
    again = os.open(f"/proc/self/fd/{fd}", os.O_RDWR)
    mmap.mmap(again, 4096)[:16] = b"A" * 16
def unseal():
    import fcntl
    fcntl.fcntl(fd, 1033, 0)
    mmap.mmap(fd, 4096)[:16] = b"A" * 16
def hole():
    if libc.fallocate(fd, 3, ctypes.c_long(0), ctypes.c_long(4096)) != 0:
        raise OSError(ctypes.get_errno(), "fallocate")
attempt("read", lambda: outcome.__setitem__("content", mmap.mmap(fd, 4096, prot=1)[:4].decode()))
attempt("map", lambda: mmap.mmap(fd, 4096).__setitem__(slice(0, 16), b"A" * 16))
attempt("mprotect", protect)
attempt("write", lambda: os.pwrite(fd, b"A" * 16, 0))
attempt("reopen", reopen)
attempt("reopen_map", reopen_map)
attempt("own_memory", own_memory)
attempt("unseal", unseal)
attempt("hole", hole)
attempt("shrink", lambda: os.ftruncate(fd, 0))
attempt("grow", lambda: os.ftruncate(fd, 1 << 20))
print(json.dumps(outcome))
'''


def attacked(memory: SharedMemory, sandbox: Sandbox) -> dict[str, str]:
    """What a hostile process in the sandbox managed to do with a memory file's descriptor."""
    done = sandbox.run(
        [sys.executable, "-I", "-S", "-c", ATTACK, str(memory.descriptor)], pass_fds=[memory.descriptor],
        limits=Limits(wall_s=20),
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


def test_no_way_leads_a_sandboxed_process_to_write_a_sealed_input(sandbox: Sandbox) -> None:
    memory = SharedMemory("x", 4096, read_only=True)
    try:
        memory.mapping[:4] = b"KEEP"
        outcome = attacked(memory, sandbox)
        assert outcome.pop("read") == "done" and outcome.pop("content") == "KEEP"
        assert "done" not in outcome.values(), outcome
        assert memory.mapping[:16] == b"KEEP" + bytes(12)
        memory.mapping[:4] = b"NEXT"  # the judge still can
    finally:
        memory.close()


def test_an_output_can_be_written_but_neither_shrunk_nor_grown(sandbox: Sandbox) -> None:
    memory = SharedMemory("y", 4096, read_only=False)
    try:
        outcome = attacked(memory, sandbox)
        assert outcome["map"] == outcome["write"] == "done"
        assert outcome["hole"] == "done" and memory.mapping[:16] == bytes(16)  # as good as writing zeros
        assert outcome["shrink"] == outcome["grow"] == "EPERM"  # reading what is gone would kill the judge
    finally:
        memory.close()


def test_the_same_attack_succeeds_on_memory_that_is_not_sealed(sandbox: Sandbox) -> None:
    """The attack is a real one: without the seal the ordinary roads are open."""
    memory = SharedMemory("y", 4096, read_only=False)
    try:
        outcome = attacked(memory, sandbox)
        roads = ("map", "mprotect", "write", "reopen", "reopen_map")
        assert {road: outcome[road] for road in roads} == dict.fromkeys(roads, "done")
    finally:
        memory.close()


def test_a_runner_of_the_judges_own_user_is_refused_too() -> None:
    memory = SharedMemory("x", 4096, read_only=True)
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", ATTACK, str(memory.descriptor)], pass_fds=[memory.descriptor],
            capture_output=True, check=True,
        )
        outcome = json.loads(done.stdout)
        assert outcome["map"] == outcome["write"] == outcome["reopen"] == "EPERM" and outcome["mprotect"] == "EACCES"
        assert memory.mapping[:16] == bytes(16)
    finally:
        memory.close()


@pytest.fixture
def buffers() -> HostBuffers:
    return HostBuffers(Layout([
        Parameter("x", "input", (3, 5), torch.bfloat16, "bfloat16"), Parameter("n", "axis", value=3, type="int"),
        Parameter("y", "output", (7,), torch.float32, "float32"), Parameter("b", "output", (3,), torch.bool, "bool"),
        Parameter("none", "output", (0, 4), torch.float32, "float32"),
        Parameter("s", "output", (), torch.int64, "int64"),
    ], slots=3))


def test_inputs_written_to_a_slot_are_there_and_only_there(buffers: HostBuffers) -> None:
    x = torch.randn(3, 5).to(torch.bfloat16)
    buffers.write_inputs(1, {"x": x})
    assert buffers.inputs_equal(1, {"x": x}) == ""
    assert buffers.inputs_equal(0, {"x": x}) == buffers.inputs_equal(2, {"x": x}) == "x"
    buffers.close()


def test_an_input_holding_nan_equals_itself(buffers: HostBuffers) -> None:
    x = torch.full((3, 5), float("nan"), dtype=torch.bfloat16)
    buffers.write_inputs(0, {"x": x})
    assert buffers.inputs_equal(0, {"x": x}) == ""
    buffers.close()


def test_poison_fills_every_output_of_one_slot_and_leaves_the_others(buffers: HostBuffers) -> None:
    outputs = {p.name: p for p in buffers.layout.outputs}
    buffers.view(outputs["y"], 0).fill_(1)
    patterns = buffers.poison(1)
    assert bool(buffers.view(outputs["y"], 1).isnan().all()) and bool((buffers.view(outputs["y"], 0) == 1).all())
    assert set(patterns) == {"y", "b", "none", "s"}
    assert buffers.broken_guard(1, patterns) == ""
    assert buffers.poison(1)["y"] != patterns["y"]
    buffers.close()


@pytest.mark.parametrize(("name", "size"), [("y", 28), ("b", 3), ("none", 0), ("s", 8)])
@pytest.mark.parametrize("where", ["before", "after", "far after"])
def test_one_byte_outside_an_output_is_seen_and_located(
    buffers: HostBuffers, name: str, size: int, where: str
) -> None:
    patterns = buffers.poison(2)
    p = {p.name: p for p in buffers.layout.outputs}[name]
    raw = buffers._raw[name]
    position = {"before": -1, "after": size, "far after": p.stride - p.offset - 1}[where]
    raw[2 * p.stride + p.offset + position] ^= 0xFF
    expected = f"byte {position - (size if position > 0 else 0) if where != 'before' else -1:+d}"
    message = buffers.broken_guard(2, patterns)
    assert repr(name) in message and expected in message and where.split()[-1] in message
    buffers.close()


def test_views_have_the_shape_of_their_parameter_and_stay_within_the_guards(buffers: HostBuffers) -> None:
    outputs = {p.name: p for p in buffers.layout.outputs}
    assert buffers.view(outputs["s"], 0).shape == () and buffers.view(outputs["none"], 0).shape == (0, 4)
    patterns = buffers.poison(0)
    for p in outputs.values():
        buffers.view(p, 0).zero_()
    assert buffers.broken_guard(0, patterns) == ""
    assert outputs["y"].offset == GUARD_BYTES
    buffers.close()


def test_closing_gives_every_descriptor_back() -> None:
    before = open_descriptors()
    made = HostBuffers(Layout([Parameter(f"t{i}", "output", (4,), torch.float32, "float32") for i in range(5)], 2))
    assert open_descriptors() >= before + 5
    made.close()
    del made
    assert open_descriptors() == before
