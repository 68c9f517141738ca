"""The layout of the two small pages judge and runner share for flags, seeds, marks and proofs.

``command`` is written by the judge alone (the runner's mapping is read-only on the host target); ``reply`` is written
by the runner and believed for nothing but the moment a flag changed.
"""

from __future__ import annotations

MAX_CALLS = 128
"""Most calls of one batch: what the page has room for."""
CALLS_ENQUEUED = 2
"""Calls that are enqueued together, a pair. More of them would be more launches than a driver's queue holds, about a
thousand, for kernels that consist of many."""

PROOF_WORDS = 64
"""Output words a call's end mark carries along, at positions the judge chose after the call was enqueued."""

# command page, as 64-bit words
COMMAND_SEQUENCE = 0
COMMAND_SLOT = 1

# reply page, as 64-bit words
REPLY_SEQUENCE = 0
REPLY_STATUS = 1
REPLY_CLAIMED_NS = 2
REPLY_ARMED = 3

HOST_PAGE_BYTES = 4096

# device page (pinned, mapped into the GPU), as 64-bit words: the gate, that is how many calls may begin; for kernels
# that are called one at a time, slot and sequence; how many calls are admitted: the stream may come to the grid before
# the last pair of them; how many calls' inputs are there; in the word behind that, which grid is asked whether
# it is back on the device; and how many calls' outputs have been looked at (nothing is in the word behind that)
DEVICE_GATE = 0
DEVICE_SLOT = 1
DEVICE_SEQUENCE = 2
DEVICE_ADMITTED = 3
DEVICE_PUBLISHED = 4
DEVICE_ASKED = 5
DEVICE_LOOKED = 6
# and as byte offsets. By call: the seed of its proof; two marks (begin, end); what the grid before it says, or that
# behind a pair's second (HELD_WORDS); the keys of its two passes; one mark behind a pair, at its second call's place;
# the proof
SEED_OFFSET = 4096
OVER_OFFSET = 6144
MARK_OFFSET = 8192
HELD_OFFSET = 10240
KEY_OFFSET = 14336
PROOF_OFFSET = 16384
STAMP_BYTES = 43008
"""How far from a mark its stamp lies: the device's time when the judge's own kernel wrote the mark, in ns."""
DEVICE_PAGE_BYTES = MARK_OFFSET + STAMP_BYTES + 16 * MAX_CALLS
HELD_WORDS = 4
"""arrived (every block is there; said again when it is back after a turn of the judge's), cleared (the first pass is
over), and both passes' keyed sums."""
GATE_OPEN = (1 << 63) - 1
"""A gate value above every threshold: the watchdog's 'let everything through'."""


def splitmix64(value: int) -> int:
    """One step of SplitMix64 (Steele, Lea, Flood 2014); the device side in gate.cu is the same function."""
    mask = (1 << 64) - 1
    value = (value + 0x9E3779B97F4A7C15) & mask
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & mask
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & mask
    return value ^ (value >> 31)
