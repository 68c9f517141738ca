# case: fault
# problem: rmsnorm_h4096
# language: torch
# hardware: cpu
# family: honest
# caught-by: runs
# verdict: runtime_error
#
# Dies of a segmentation fault in native code, in a process whose end takes a while: not a word on the channel.
import ctypes


def run(x, weight, y):
    ctypes.string_at(0)
