"""Running programs that may be hostile: ``find_sandbox()`` gives the strongest sandbox that this host can make.

Not for judging what they did. Start reading at ``contract``.
"""

from agentcore.sandbox.capture import BoundedCapture
from agentcore.sandbox.choose import find_sandbox
from agentcore.sandbox.contract import (
    GIB,
    MIB,
    Bind,
    Completed,
    Limits,
    Sandbox,
    SandboxError,
    SandboxUnavailable,
)
from agentcore.sandbox.process import SandboxProcess

__all__ = [
    "GIB",
    "MIB",
    "Bind",
    "BoundedCapture",
    "Completed",
    "Limits",
    "Sandbox",
    "SandboxError",
    "SandboxProcess",
    "SandboxUnavailable",
    "find_sandbox",
]
