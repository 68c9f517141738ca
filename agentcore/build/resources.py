"""Reading what ``ptxas -v`` says each device function uses: a claim, since a source can print such lines too.

What can be had from the binary is read there, by ``binary``. Not for judging it. Names are demangled by c++filt where
there is one, in the sandbox: they are the author's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from agentcore.judge.result import KernelResources
from agentcore.sandbox import Limits, Sandbox, SandboxError

MAX_KERNELS = 256
MAX_NAME = 300

_ENTRY = re.compile(r"ptxas info\s*: Compiling entry function '([^']+)' for '([^']+)'")
_PROPERTIES = re.compile(r"ptxas info\s*: Function properties for '?([^'\s]+)'?")
# A source can print such lines too (#pragma message, print): no more digits than a number of these has.
_NUMBER = r"(\d{1,12})"
_STACK = re.compile(rf"{_NUMBER} bytes stack frame, {_NUMBER} bytes spill stores, {_NUMBER} bytes spill loads")
_USED = re.compile(rf"ptxas info\s*: Used {_NUMBER} registers(.*)")


@dataclass
class _Found:
    arch: str
    numbers: dict[str, int] = field(default_factory=dict)


def parse_ptxas(log: str) -> list[KernelResources]:
    """The kernels in a ``ptxas -v`` log in its order, with mangled names; at most MAX_KERNELS."""
    found: dict[str, _Found] = {}
    current: _Found | None = None  # the kernel whose "Used" line comes next
    described: _Found | None = None  # the function whose stack line comes next
    for line in log.splitlines():
        if match := _ENTRY.search(line):
            current = found.setdefault(match[1], _Found(match[2]))
            described = current
        elif match := _PROPERTIES.search(line):
            described = found.get(match[1])
        elif (match := _STACK.search(line)) and described is not None:
            described.numbers |= {
                "stack_bytes": int(match[1]),
                "spill_store_bytes": int(match[2]),
                "spill_load_bytes": int(match[3]),
            }
        elif (match := _USED.search(line)) and current is not None:
            rest = match[2]
            current.numbers |= {
                "registers": int(match[1]),
                "barriers": _total(rf"used {_NUMBER} barriers", rest),
                "shared_bytes": _total(rf"\b{_NUMBER}(?:\+\d+)? bytes smem", rest),
                "constant_bytes": _total(rf"\b{_NUMBER} bytes cmem\[\d+\]", rest),
            }
            stack = re.search(rf"\b{_NUMBER} bytes cumulative stack size", rest)
            if stack:
                current.numbers["stack_bytes"] = max(int(stack[1]), current.numbers.get("stack_bytes", 0))
            current = None
        if len(found) >= MAX_KERNELS and current is None:
            break
    return [
        KernelResources.model_validate({"name": name[:MAX_NAME], "arch": each.arch, **each.numbers})
        for name, each in found.items()
    ]


def _total(pattern: str, text: str) -> int:
    return sum(int(number) for number in re.findall(pattern, text))


def demangle(kernels: list[KernelResources], sandbox: Sandbox) -> list[KernelResources]:
    """The same kernels under their C++ names, or unchanged where no c++filt answers."""
    names = _filtered([kernel.name for kernel in kernels], sandbox)
    return [kernel.model_copy(update={"name": name}) for kernel, name in zip(kernels, names, strict=True)]


def _filtered(names: list[str], sandbox: Sandbox) -> Iterable[str]:
    if not names:
        return names
    limits = Limits(memory_bytes=1 << 30, processes=16, wall_s=10, output_bytes=1 << 20)
    try:
        done = sandbox.run(["c++filt"], limits=limits, python=False, input="\n".join(names).encode() + b"\n")
    except SandboxError:
        return names
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    if done.returncode != 0 or len(lines) != len(names):
        return names
    return [line[:MAX_NAME] for line in lines]
