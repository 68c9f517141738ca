"""Runs in a process of its own: the runner's GPU target, a corpus case's Python payload in it, and one batch with every
gate open. Arguments: the runner's directory, the case's source. Prints the marks as JSON.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, sys.argv[1])
import device  # type: ignore[import-not-found]
import pages  # type: ignore[import-not-found]

REGION_BYTES, GRID, TOKEN, CALLS = 1 << 16, 2, 77, 6


def memory(size: int) -> int:
    descriptor = os.memfd_create("meddled")
    os.ftruncate(descriptor, size)
    return descriptor


source = Path(sys.argv[2]).read_text()
payload = re.search(r'R"\((.*?)\)"', source, re.DOTALL)
assert payload is not None
target = device.DeviceTarget()
region = memory(REGION_BYTES)
os.pwrite(region, os.urandom(REGION_BYTES), 0)
hello = {"gate": sys.argv[2], "clear_grid": GRID, "region_bytes": REGION_BYTES, "region_size": REGION_BYTES}
target.do_hello(hello, [memory(pages.DEVICE_PAGE_BYTES), region])
target.page[:] = bytes(pages.DEVICE_PAGE_BYTES)
target.calls, target.outputs = [lambda: 0] * CALLS, [device.Outputs()] * CALLS

warmed: list[int] = []
honest = target.driver.launch


def stand_in(parameters: Any, slot: int, grid: int, block: int, stream: Any) -> int:
    """For a grid that a case launches in the place of ky_clear, with its parameters."""
    warmed.append(slot)
    honest(target.functions["ky_clear"], grid, block, stream, ctypes.cast(parameters, ctypes.POINTER(ctypes.c_void_p)))
    return 0


kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_void_p)
target.kernel = SimpleNamespace(library=SimpleNamespace(clear_and_warm=kind(stand_in)))
exec(payload.group(1), {})  # one of our own cases
slots = [3, 1, 2, 0, 5, 4]
answer = target.handle(
    {"op": "enqueue", "slots": slots, "kind": "call", "token": TOKEN, "flush": [True, False] * (CALLS // 2)}, []
)
for word in (pages.DEVICE_ADMITTED, pages.DEVICE_PUBLISHED, pages.DEVICE_GATE):
    target.words[word] = pages.GATE_OPEN
target.do_idle({}, [])
marks, held = pages.MARK_OFFSET // 8, pages.HELD_OFFSET // 8
print(json.dumps({
    "status": answer["status"],
    "begun": [target.words[marks + 2 * call] == TOKEN for call in range(CALLS)],
    "ended": [target.words[marks + 2 * call + 1] == TOKEN for call in range(CALLS)],
    "over": [target.words[pages.OVER_OFFSET // 8 + call] == TOKEN for call in range(1, CALLS, 2)],
    "region_bytes": target.region_bytes, "warmed": warmed,
}))
