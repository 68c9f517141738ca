"""What a built kernel carries that its build did not make: a library or a GPU binary pasted in as data.

A look at the file's bytes, nothing is run or loaded. It finds what is pasted in as it is; what is encoded in some way
is found, if at all, when it is loaded.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

_ELF = b"\x7fELF\x02\x01\x01"  # 64 bit, little-endian, the current version
_FATBIN = bytes.fromhex("50ed55ba01001000")  # magic, version 1, a header of 16 bytes
_HOST_MACHINES, _CUDA_MACHINE = (62, 183), 190
_OBJECT_TYPES = (1, 2, 3)
_DEVICE_SECTIONS = (b".nv_fatbin", b"__nv_relfatbin")


def carried(shared_object: bytes) -> str:
    """A foreign binary inside an ELF shared object, described with its offset; '' where there is none."""
    device = list(_sections(shared_object, _DEVICE_SECTIONS))

    def ours(offset: int) -> bool:
        return any(begin <= offset < end for begin, end in device)

    for offset in _occurrences(shared_object, _ELF):
        header = shared_object[offset : offset + 20]
        if len(header) < 20:
            continue
        kind, machine = struct.unpack_from("<HH", header, 16)
        if kind not in _OBJECT_TYPES:
            continue
        if machine in _HOST_MACHINES:
            return f"another program or library, at byte {offset}"
        if machine == _CUDA_MACHINE and not ours(offset):
            return f"a GPU binary that its build did not make, at byte {offset}"
    for offset in _occurrences(shared_object, _FATBIN):
        if not ours(offset):
            return f"GPU code that its build did not make, at byte {offset}"
    return ""


def _occurrences(data: bytes, pattern: bytes) -> Iterator[int]:
    """Where the pattern stands, the very beginning left out: that is the file itself."""
    offset = data.find(pattern, 1)
    while offset >= 0:
        yield offset
        offset = data.find(pattern, offset + 1)


def _sections(data: bytes, names: tuple[bytes, ...]) -> Iterator[tuple[int, int]]:
    """The byte ranges of the sections of these names; none where the headers make no sense."""
    try:
        table, size, count, strings = struct.unpack_from("<Q", data, 0x28)[0], *struct.unpack_from("<HHH", data, 0x3A)
        headers = [struct.unpack_from("<IIQQQQ", data, table + index * size) for index in range(count)]
        text = headers[strings][4]
    except (struct.error, IndexError):
        return
    for name, _, _, _, offset, length in headers:
        start = text + name
        if data[start : data.find(b"\0", start)] in names:
            yield offset, offset + length
