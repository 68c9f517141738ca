"""What the quick start needs of this machine, each missing thing with the package that brings it."""

from __future__ import annotations

import shutil
import socket

from django.conf import settings

from agentcore.sandbox import SandboxError, find_sandbox

PORTS_TRIED = 100


def missing() -> list[str]:
    """One line per missing tool, saying what to install; empty where all is there."""
    found = []
    for tool, package, why in (
        ("git", "git", "attempts and solutions are git repositories"),
        ("g++", "g++", "the CPU kernels are C++"),
    ):
        if shutil.which(tool) is None:
            found.append(f"{tool} is missing ({why}); install the package {package}: apt-get install {package}")
    try:
        find_sandbox(settings.SANDBOX)
    except (SandboxError, ValueError) as error:
        remedy = "install the package bubblewrap: apt-get install bubblewrap"
        found.append(f"no sandbox for foreign code ({error}); {remedy}")
    return found


def choose_port(host: str, wanted: int | None, default: int = 8000) -> int:
    """``wanted`` if it is free, else OSError; without a wish, the first free port from ``default`` on."""
    if wanted is not None:
        if not _is_free(host, wanted):
            raise OSError(f"port {wanted} on {host} is in use; choose another with --port, or leave --port out")
        return wanted
    for port in range(default, default + PORTS_TRIED):
        if _is_free(host, port):
            return port
    raise OSError(f"no port from {default} to {default + PORTS_TRIED - 1} is free on {host}; name one with --port")


def _is_free(host: str, port: int) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
