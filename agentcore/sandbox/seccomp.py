"""The system-call filter of every sandbox: a deny-list, assembled by hand as classic BPF.

It takes away what an honest compiler or kernel never calls and what has a record of kernel bugs or of reaching other
processes: new namespaces, mounts, tracing, keyrings, BPF, perf, io_uring, module loading. It also takes away the ways
a stopped process could have itself continued (the signal that does it, and timers and descriptors that could send it),
because the judge stops candidates and reads their outputs. Not the only wall: the namespaces and the uid stand
without it.
"""

from __future__ import annotations

import errno
import platform
import struct

from agentcore.sandbox.contract import SandboxUnavailable

# x86_64 and aarch64 numbers; None where the call does not exist.
_CALLS: dict[str, tuple[int | None, int | None]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "create_module": (174, None),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lookup_dcookie": (212, 18),
    "memfd_secret": (447, 447),
    "modify_ldt": (154, None),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "mq_notify": (244, 184),
    "mq_open": (240, 180),
    "name_to_handle_at": (303, 264),
    "nfsservctl": (180, 42),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "process_madvise": (440, 440),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    # The judge decides which cores a kernel is timed on.
    "sched_setaffinity": (203, 122),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "timer_create": (222, 107),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
    "vhangup": (153, 58),
}
# Refused as "not there", so that libraries take their older path.
_ABSENT: dict[str, tuple[int, int]] = {
    "clone3": (435, 435),  # its flags are behind a pointer, where a filter cannot look
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    # System V objects hold memory that no process has open or mapped.
    "msgget": (68, 186),
    "semget": (64, 190),
    "shmget": (29, 194),
}
_CLONE = (56, 220)
_CLOSE_RANGE = (436, 436)
_SOCKET = (41, 198)
_FCNTL = (72, 25)
_IOCTL = (16, 29)
# Calls that send a signal, and which argument says which.
_SENDERS = (((62, 129), 1), ((200, 130), 1), ((234, 131), 2), ((129, 138), 1), ((297, 240), 2), ((424, 424), 1))

_NEW_NAMESPACES = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
_CLONE_THREAD, _CLONE_FILES = 0x00010000, 0x00000400
_CLOSE_RANGE_UNSHARE = 2
_FAMILIES = (1, 2, 10, 16)  # unix, inet, inet6, netlink: all confined by the network namespace, unlike vsock and alg
_F_SETSIG = 10
# TIOCSTI, TIOCLINUX, TIOCSIG; TIOCSCTTY, TIOCSPTLCK, TIOCGPTPEER (a terminal's hang-up sends SIGCONT)
_TERMINAL_TRICKS = (0x5412, 0x541C, 0x40045436, 0x540E, 0x40045431, 0x5441)
_PRCTL = (157, 167)
_PR_SET_PDEATHSIG = 1
_SIGCONT = 18

_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}

_LD_ABS, _JEQ, _JGE, _JSET, _RET, _AND = 0x20, 0x15, 0x35, 0x45, 0x06, 0x54
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NR, _ARCH = 0, 4


def _op(code: int, k: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, if_true, if_false, k)


def _refuse(number: int) -> bytes:
    return _op(_RET, _ERRNO | number)


def _argument(index: int) -> bytes:
    """Load the low half of an argument (both architectures are little-endian)."""
    return _op(_LD_ABS, 16 + 8 * index)


def _for_call(call: int, body: list[bytes]) -> list[bytes]:
    """Run ``body`` for one call only, and allow it if the body comes to its end."""
    return [_op(_JEQ, call, 0, len(body) + 1), *body, _op(_RET, _ALLOW)]


def _refuse_any(values: tuple[int, ...], number: int) -> list[bytes]:
    """Refuse if what is loaded is one of the values."""
    return [op for value in values for op in (_op(_JEQ, value, 0, 1), _refuse(number))]


def filter_program(machine: str | None = None) -> bytes:
    """The filter as an array of ``struct sock_filter``. Raises SandboxUnavailable for an unknown architecture."""
    machine = machine or platform.machine()
    if machine not in _ARCHITECTURES:
        raise SandboxUnavailable(f"there is no system-call filter for {machine}, only for {', '.join(_ARCHITECTURES)}")
    column, audit = _ARCHITECTURES[machine]
    program = [_op(_LD_ABS, _ARCH), _op(_JEQ, audit, 1, 0), _op(_RET, _KILL), _op(_LD_ABS, _NR)]
    if column == 0:
        # The x32 calls have numbers of their own, which the lists would not match.
        program += [_op(_JGE, 0x40000000, 0, 1), _refuse(errno.ENOSYS)]
    denied = tuple(number for numbers in _CALLS.values() if (number := numbers[column]) is not None)
    program += _refuse_any(denied, errno.EPERM)
    program += _refuse_any(tuple(numbers[column] for numbers in _ABSENT.values()), errno.ENOSYS)
    program += _for_call(
        _CLONE[column],
        [
            _argument(0),
            _op(_JSET, _NEW_NAMESPACES, 0, 1),
            _refuse(errno.EPERM),
            # A thread with descriptors of its own would have memory files that its process does not show.
            _op(_JSET, _CLONE_FILES, 2, 0),
            _op(_JSET, _CLONE_THREAD, 0, 1),
            _refuse(errno.EPERM),
            _op(_AND, 0xFF),  # the signal the parent gets at the child's end
            *_refuse_any((_SIGCONT,), errno.EPERM),
        ],
    )
    unshares = [_argument(2), _op(_JSET, _CLOSE_RANGE_UNSHARE, 0, 1), _refuse(errno.EPERM)]
    program += _for_call(_CLOSE_RANGE[column], unshares)
    allowed = [_op(_JEQ, family, len(_FAMILIES) - index, 0) for index, family in enumerate(_FAMILIES)]
    program += _for_call(_SOCKET[column], [_argument(0), *allowed, _refuse(errno.EAFNOSUPPORT)])
    program += _for_call(_FCNTL[column], [_argument(1), *_refuse_any((_F_SETSIG,), errno.EPERM)])
    program += _for_call(_IOCTL[column], [_argument(1), *_refuse_any(_TERMINAL_TRICKS, errno.EPERM)])
    program += _for_call(_PRCTL[column], [_argument(0), *_refuse_any((_PR_SET_PDEATHSIG,), errno.EPERM)])
    for numbers, index in _SENDERS:
        program += _for_call(numbers[column], [_argument(index), *_refuse_any((_SIGCONT,), errno.EPERM)])
    return b"".join([*program, _op(_RET, _ALLOW)])
