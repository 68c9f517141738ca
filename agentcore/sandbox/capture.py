"""A pipe that never blocks its writer and never grows: the head and the tail of what was written are kept.

Not for protocols: whoever needs every byte uses a socket of its own.
"""

from __future__ import annotations

import contextlib
import os
import threading

_CHUNK = 1 << 16


class BoundedCapture:
    """Reads a pipe in a thread; keeps at most ``limit`` bytes, half from the start and half from the end.

    Give ``write_fd`` to the child, call ``close_writer()`` in the parent once it has started, ``result()`` at the end.
    """

    def __init__(self, limit: int) -> None:
        self._limit = max(limit, 2)
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0
        self._lock = threading.Lock()
        self._read_fd, self.write_fd = os.pipe()
        self._writer_open = True
        self._thread = threading.Thread(target=self._drain, name="sandbox-output", daemon=True)
        self._thread.start()

    def close_writer(self) -> None:
        """Close the parent's copy of the writing end; the reader ends when the last child has closed its own."""
        if self._writer_open:
            self._writer_open = False
            os.close(self.write_fd)

    def _drain(self) -> None:
        half = self._limit // 2
        while True:
            try:
                chunk = os.read(self._read_fd, _CHUNK)
            except OSError:
                chunk = b""
            if not chunk:
                break
            with self._lock:
                self._total += len(chunk)
                room = half - len(self._head)
                if room > 0:
                    self._head += chunk[:room]
                    chunk = chunk[room:]
                self._tail += chunk
                if len(self._tail) > half + _CHUNK:
                    del self._tail[: len(self._tail) - half]
        os.close(self._read_fd)

    def result(self, timeout: float = 5.0) -> tuple[bytes, bool]:
        """What was kept, and whether anything was dropped. Waits up to ``timeout`` seconds for the writers to end."""
        self.close_writer()
        self._thread.join(timeout)
        return self.snapshot()

    def snapshot(self) -> tuple[bytes, bool]:
        """What was kept so far, without waiting."""
        half = self._limit // 2
        with self._lock:
            kept_tail = bytes(self._tail[max(0, len(self._tail) - half) :])
            dropped = self._total - len(self._head) - len(kept_tail)
            if dropped <= 0:
                return bytes(self._head) + kept_tail, False
            return bytes(self._head) + f"\n... {dropped} bytes left out ...\n".encode() + kept_tail, True

    def __enter__(self) -> BoundedCapture:
        return self

    def __exit__(self, *exc: object) -> None:
        with contextlib.suppress(OSError):
            self.close_writer()
