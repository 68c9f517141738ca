"""Names of the GPU kernels that one call of a Python candidate launches, by torch's profiler: a claim."""

from __future__ import annotations

from typing import Any

MAX_NAMES, MAX_NAME = 64, 300


def do_kernels(target: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Call one slot, ungated and untimed, under the profiler. Copies and fills by the driver are not kernels."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    with target._streams(), profile(activities=[ProfilerActivity.CUDA]) as seen:
        status = target.calls[request["slot"]]()
        torch.cuda.synchronize()
    names = {event.name[:MAX_NAME] for event in seen.events() if event.device_type.name == "CUDA"}
    launched = sorted(name for name in names if not name.startswith(("Memcpy", "Memset")))
    return {"op": "kernels", "status": status, "names": launched[:MAX_NAMES]}
