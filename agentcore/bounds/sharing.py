"""What of an output is not its own memory: elements of an input that it shows unchanged, and repeated elements.

A kernel here writes every output to memory of its own, so all of it counts. Where a kernel may return views, or write
into its inputs, it need not move these: published times are of such kernels.
"""

from __future__ import annotations

import math

import torch

from agentcore.bounds import masks
from agentcore.bounds.trace import Trace
from agentcore.bounds.values import Value


def unmoved_bytes(trace: Trace, output: torch.Tensor) -> int:
    """Bytes that copying ``output`` to its own memory moves, and returning it as it is would not."""
    distinct = math.prod(size for size, stride in zip(output.shape, output.stride(), strict=True) if stride != 0)
    repeated = output.numel() - distinct
    kept = _kept_of_an_input(trace, output)
    # What an input keeps is neither read nor written; what is repeated is not written again.
    return (2 * kept + repeated) * output.dtype.itemsize


def _kept_of_an_input(trace: Trace, output: torch.Tensor) -> int:
    """Elements of ``output`` that lie in an input's memory and were never written."""
    store, steps = trace.storage(output)
    if store.source is None:
        return 0
    wanted = masks.everything(output.shape)
    for step in reversed(steps):
        back = step.backward(wanted)
        if back is None:
            return 0
        wanted = back
    value: Value | None = store.value
    while value is not None and value.source is None:
        kept = value.kept(wanted) if value.kept is not None else None
        if kept is None:
            return 0
        wanted, value = kept, value.before
    return masks.count(wanted) if value is not None else 0
