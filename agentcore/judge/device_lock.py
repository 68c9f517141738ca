"""One measurement at a time on a device of this host: an flock per device, held only while measuring."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def device_lease(device_uuid: str) -> Iterator[None]:
    """Wait for, hold and release the device. The kernel frees it if the holder dies."""
    directory = Path(tempfile.gettempdir()) / f"kernelyard-devices-{os.getuid()}"
    directory.mkdir(mode=0o700, exist_ok=True)
    with (directory / f"{device_uuid}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
