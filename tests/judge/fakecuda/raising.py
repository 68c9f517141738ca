"""Runs in a process of its own: the runner's GPU target with a call that raises, enqueued and then claimed for.
Argument: the runner's directory. Prints what was raised, and what was left behind, as JSON.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys

sys.path.insert(0, sys.argv[1])
import device  # type: ignore[import-not-found]
import pages  # type: ignore[import-not-found]

REGION_BYTES, CALLS = 1 << 16, 2


def memory(size: int) -> int:
    descriptor = os.memfd_create("raising")
    os.ftruncate(descriptor, size)
    return descriptor


def raising() -> int:
    raise ValueError("out of its launch")


target = device.DeviceTarget()
hello = {"gate": __file__, "clear_grid": 2, "region_bytes": REGION_BYTES, "region_size": REGION_BYTES}
target.do_hello(hello, [memory(pages.DEVICE_PAGE_BYTES), memory(REGION_BYTES)])
target.page[:] = bytes(pages.DEVICE_PAGE_BYTES)
target.calls, target.outputs = [lambda: 0, raising], [device.Outputs()] * CALLS
raised: list[str] = []
for request in (
    {"op": "claim", "slots": [0, 1], "gated": True},
    {"op": "enqueue", "slots": [0, 1], "first": 0, "kind": "call", "token": 77, "flush": [True, False]},
):
    try:
        target.handle(request, [])
    except ValueError as error:
        raised.append(str(error))
    if request["op"] == "enqueue":  # as the judge does then
        for word in (pages.DEVICE_ADMITTED, pages.DEVICE_PUBLISHED, pages.DEVICE_GATE, pages.DEVICE_LOOKED):
            target.words[word] = pages.GATE_OPEN
    signal.alarm(20)  # what waits behind a closed gate would never end
    target.do_idle({}, [])
    signal.alarm(0)
print(json.dumps({"raised": raised, "collects": gc.isenabled()}))
