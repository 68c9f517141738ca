"""Memory that a judge frees and soon needs again stays its own.

Not for the candidate, whose process has an allocator of its own.
"""

from __future__ import annotations

import ctypes

from agentcore.sandbox import MIB

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h of the GNU C library; other libraries take no such option
KEPT_BYTES = 512 * MIB
_LARGEST_BYTES = 32 * MIB


def keep_freed_memory() -> None:
    """Give back to the kernel only what is free beyond ``KEPT_BYTES``, and blocks of more than 32 MiB.

    The comparison of a call's outputs makes tensors of some MiB and drops them. By default each comes as new pages,
    which are all zeroed and mapped anew: that took two thirds of the time of a comparison.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGEST_BYTES)
        mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)
