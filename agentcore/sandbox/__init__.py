"""Running programs that may be hostile: ``find_sandbox()`` gives the strongest sandbox that this host can make.

Not for judging what they did. Start reading at ``contract``, then ``launch``.
"""

from agentcore.sandbox.capture import BoundedCapture
from agentcore.sandbox.choose import find_sandbox
from agentcore.sandbox.contract import (
    GIB,
    MIB,
    Bind,
    Completed,
    Exceeded,
    Limits,
    SandboxError,
    SandboxUnavailable,
)
from agentcore.sandbox.launch import Sandbox
from agentcore.sandbox.memory import half_of_host_bytes, memory_mechanism
from agentcore.sandbox.process import SandboxProcess
from agentcore.sandbox.tree import CpuTimes

__all__ = [
    "GIB",
    "MIB",
    "Bind",
    "BoundedCapture",
    "Completed",
    "CpuTimes",
    "Exceeded",
    "Limits",
    "Sandbox",
    "SandboxError",
    "SandboxProcess",
    "SandboxUnavailable",
    "find_sandbox",
    "half_of_host_bytes",
    "memory_mechanism",
]
