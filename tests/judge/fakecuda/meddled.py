"""Runs in a process of its own: the runner's GPU target, a corpus case's Python payload in it, and one batch, pair by
pair. Its first grid is asked whether it is there before any gate is opened. Arguments: the runner's directory, the
case's source. Prints the marks, and what else the grids said, as JSON.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, sys.argv[1])
import device  # type: ignore[import-not-found]
import pages  # type: ignore[import-not-found]
from driver import packed  # type: ignore[import-not-found]

REGION_BYTES, GRID, TOKEN, CALLS = 1 << 16, 2, 77, 6


def memory(size: int) -> int:
    descriptor = os.memfd_create("meddled")
    os.ftruncate(descriptor, size)
    return descriptor


def python_in(source: str) -> str:
    found = re.search(r'R"\((.*?)\)"', source, re.DOTALL)
    assert found is not None
    return found.group(1)


case = Path(sys.argv[2])
source = case.read_text()
payload = python_in(source)
if '#include "lost_begin.h"' in source:
    payload = python_in((case.parents[1] / "include" / "lost_begin.h").read_text()) + payload
target = device.DeviceTarget()
region = memory(REGION_BYTES)
os.pwrite(region, os.urandom(REGION_BYTES), 0)
hello = {"gate": sys.argv[2], "clear_grid": GRID, "region_bytes": REGION_BYTES, "region_size": REGION_BYTES}
target.do_hello(hello, [memory(pages.DEVICE_PAGE_BYTES), region])
target.page[:] = bytes(pages.DEVICE_PAGE_BYTES)
target.calls, target.outputs = [lambda: 0] * CALLS, [device.Outputs()] * CALLS

warmed: list[int] = []
finished: list[bool] = []
honest = target.driver.launch


def stand_in(parameters: Any, slot: int, grid: int, block: int, stream: Any) -> int:
    """Launches the grid that a case has in the place of ky_clear, with its parameters and what it fetches: nothing."""
    warmed.append(slot)
    given = ctypes.cast(parameters, ctypes.POINTER(ctypes.c_void_p))
    fetched = (ctypes.c_void_p(), ctypes.c_longlong())
    taken = (ctypes.c_void_p * 14)(*given[:12], *(ctypes.addressof(each) for each in fetched))
    honest(imitation, grid, block, stream, ctypes.cast(taken, ctypes.POINTER(ctypes.c_void_p)))
    return 0


def appears(position: int) -> bool:
    """Whether a word of the page shows the token, within twenty seconds; it is cleared then."""
    limit = time.monotonic() + 20
    while target.words[position] != TOKEN:
        if time.monotonic() > limit:
            return False
    target.words[position] = 0
    return True


kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_void_p)
target.kernel = SimpleNamespace(library=SimpleNamespace(
    clear_and_warm=kind(stand_in), finish=lambda: finished.append(True),
))


def sum_under(key: int) -> int:
    """What a pass over the region must say."""
    found = ctypes.c_uint()
    parameters, _alive = packed(
        ctypes.c_void_p(target.region), ctypes.c_ulonglong(REGION_BYTES // 16), ctypes.c_ulonglong(key),
        ctypes.c_void_p(ctypes.addressof(found)),
    )
    honest(summing, GRID, 1024, 0, parameters)
    return found.value


imitation, summing = target.driver.functions(b"any", ("imitation", "ky_sum")).values()
exec(payload, {})  # one of our own cases
slots = [3, 1, 2, 0, 5, 4]
marks, held = pages.MARK_OFFSET // 8, pages.HELD_OFFSET // 8
keys = [int.from_bytes(os.urandom(8), "little") for _ in range(2 * CALLS)]
for number, key in enumerate(keys):
    target.words[pages.KEY_OFFSET // 8 + number] = key
asked: list[bool] = []
status = 0
for first in range(0, CALLS, 2):
    request = {
        "op": "enqueue", "slots": slots[first : first + 2], "first": first, "kind": "call", "token": TOKEN,
        "flush": [True, False],
    }
    status = status or target.handle(request, [])["status"]
    target.words[pages.DEVICE_ADMITTED] = first + 2
    if first == 0:
        asked.append(appears(held))
        target.words[pages.DEVICE_ASKED] = 1
        asked.append(appears(held))
    for word in (pages.DEVICE_PUBLISHED, pages.DEVICE_GATE, pages.DEVICE_LOOKED):
        target.words[word] = first + 2
    target.do_idle({}, [])
print(json.dumps({
    "status": status,
    "begun": [target.words[marks + 2 * call] == TOKEN for call in range(CALLS)],
    "ended": [target.words[marks + 2 * call + 1] == TOKEN for call in range(CALLS)],
    "over": [target.words[pages.OVER_OFFSET // 8 + call] == TOKEN for call in range(1, CALLS, 2)],
    "asked": asked,
    "cleared": [target.words[held + pages.HELD_WORDS * call + 1] == TOKEN for call in range(CALLS)],
    "summed": [
        target.words[held + pages.HELD_WORDS * call + 2 + k] == sum_under(keys[2 * call + k])
        for call in range(CALLS) for k in range(2)
    ],
    "told": [target.words[256], target.words[257]] == [target.region, target.region_bytes],
    "region_bytes": target.region_bytes, "warmed": warmed, "finished": len(finished),
}))
