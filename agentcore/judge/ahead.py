"""What can be done while torch is imported, which takes seconds: building the kernel, and compiling the judge's device
code. As a program (``python -m agentcore.judge.ahead``) the process that builds the kernel.

Nothing is reported from here: what goes wrong goes wrong again where it is reported.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from agentcore.build.prebuilt import hidden
from agentcore.build.toolchain import cuobjdump_version
from agentcore.judge.building import compiles
from agentcore.judge.devices import is_here
from agentcore.judge.gate import gate_cubin
from agentcore.judge.request import EvaluationRequest, unheard
from agentcore.sandbox import find_sandbox
from agentcore.sandbox.launch import memory_file
from agentcore.vocabulary import HardwareName


@contextlib.contextmanager
def build_ahead(request: EvaluationRequest) -> Iterator[None]:
    """Build for a GPU while the caller imports torch; the evaluation finds it cached. Given up if the caller raises.

    Not for the CPU target, whose measurements a compiler would disturb.
    """
    if not (request.language.is_compiled and request.hardware.is_gpu):
        yield
        return
    with contextlib.ExitStack() as stack:
        builder = None
        with contextlib.suppress(OSError):
            builder = stack.enter_context(_builder(request))
        stack.enter_context(ThreadPoolExecutor(1)).submit(_look_around, request)
        yield
        if builder is not None:
            builder.wait()


@contextlib.contextmanager
def device_ahead(hardware: HardwareName, cache_dir: Path) -> Iterator[None]:
    """For a GPU of this host, have the driver find its devices, and compile the judge's device code, while the caller
    imports torch.
    """
    if not hardware.is_gpu:
        yield
        return
    with ThreadPoolExecutor(2) as pool:
        for step in (_compile_gate, _begin_driver):
            pool.submit(step, hardware, cache_dir)  # what it raises stays in its future
        yield


def silent(request: EvaluationRequest) -> EvaluationRequest:
    """``request`` as another process can be asked it: whom its progress is told to stays here."""
    return replace(request, progress=unheard)


def _builder(request: EvaluationRequest) -> subprocess.Popen[bytes]:
    """A process that builds the kernel and gives up when its stdin ends. Raises OSError.

    A thread of this one would take turns with the import for each of its hundreds of system calls, and get none while a
    large library is loaded.
    """
    package_root = str(Path(__file__).resolve().parents[2])
    where = os.pathsep.join(filter(None, (package_root, os.environ.get("PYTHONPATH"))))
    # Not through stdin: a pipe holds less than some problems, and what starts the process is in a hurry.
    asked = memory_file("request", pickle.dumps(silent(request)))
    try:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "agentcore.judge.ahead", str(asked)], pass_fds=[asked],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": where},
        )
    finally:
        os.close(asked)


def _compile_gate(hardware: HardwareName, cache_dir: Path) -> None:
    if is_here(hardware):
        gate_cubin(hardware, cache_dir)


def _begin_driver(hardware: HardwareName, _cache_dir: Path) -> None:
    """Makes no context: that would disturb who holds the device."""
    if is_here(hardware):
        ctypes.CDLL("libcuda.so.1").cuInit(0)


def _look_around(request: EvaluationRequest) -> None:
    """What an evaluation asks of this host once in each process, with few turns at the interpreter."""
    cuobjdump_version()
    sandbox = find_sandbox(request.sandbox)
    if request.runs_as.is_compiled:
        hidden(sandbox, python=True)


def main() -> None:
    """Build the request that is pickled in the file whose descriptor is the only argument."""
    with os.fdopen(int(sys.argv[1]), "rb") as stream:
        request: EvaluationRequest = pickle.load(stream)  # noqa: S301  written by _builder
    # By way of an exception, so that the sandbox is ended and its workplace removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    compiles(request)


def _end_with_stdin() -> None:
    os.read(0, 1)  # nothing is ever written there
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
