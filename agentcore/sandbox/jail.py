"""The program that makes a sandbox from plain namespaces, for root on a host without bubblewrap.

Run as ``python -I -S jail.py SPEC_FD`` by ``unshare.Unshare``; standard library only, never imported. Three processes:
the monitor (this one, on the host) makes the namespaces; the first process inside builds the root file system and
then only reaps; its child gives up everything and becomes the program.

Not a security boundary of its own making: every wall is the kernel's, and any step that fails ends the program before
it starts.
"""

# ruff: noqa: PTH112, PTH211, S606
# (system calls one by one, in the order they must happen)

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import signal
import struct
import sys
from pathlib import Path
from typing import Any, NoReturn

_LIBC = ctypes.CDLL(None, use_errno=True)

_NEW_NS, _NEW_CGROUP, _NEW_UTS, _NEW_IPC, _NEW_PID, _NEW_NET = (
    0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x20000000, 0x40000000,
)  # fmt: skip
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_BIND, _MS_REC, _MS_PRIVATE = 2, 4, 8, 4096, 16384, 1 << 18
_DETACH = 2
_SYS_MOUNT_SETATTR = 442
_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_SYS_CAPSET = {"x86_64": 126, "aarch64": 91}
_ATTR_RDONLY, _ATTR_NOSUID, _ATTR_NODEV = 1, 2, 4
_AT_RECURSIVE, _AT_FDCWD = 0x8000, -100
_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 1, 24, 22, 38, 47


class _SockFprog(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _prctl(option: int, *arguments: int) -> int:
    padded = [ctypes.c_ulong(argument) for argument in (*arguments, 0, 0, 0, 0)[:4]]
    return int(_LIBC.prctl(option, *padded))


def _mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    encode = os.fsencode
    result = _LIBC.mount(
        encode(source), encode(target), kind and encode(kind), ctypes.c_ulong(flags), data and encode(data)
    )
    _check(result, f"mount {source} on {target}")


def _set_attributes(target: str, attributes: int, recursive: bool) -> None:
    block = struct.pack("=QQQQ", attributes, 0, 0, 0)
    result = _LIBC.syscall(
        ctypes.c_long(_SYS_MOUNT_SETATTR),
        ctypes.c_int(_AT_FDCWD),
        os.fsencode(target),
        ctypes.c_uint(_AT_RECURSIVE if recursive else 0),
        block,
        ctypes.c_size_t(len(block)),
    )
    _check(result, f"mount_setattr {target} (Linux 5.12 or newer is needed)")


def _pivot(new: str, old: str) -> None:
    number = _SYS_PIVOT_ROOT[os.uname().machine]
    _check(_LIBC.syscall(ctypes.c_long(number), os.fsencode(new), os.fsencode(old)), "pivot_root")


def _point(target: Path, directory: bool) -> None:
    """Make the mount point, and its parents readable to everybody."""
    target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    if directory:
        target.mkdir(mode=0o755, exist_ok=True)
    elif not target.exists():
        target.touch(mode=0o644)


def _bind(source: str, inside: str, attributes: int) -> None:
    origin, target = "/oldroot" + source, "/newroot" + inside
    _point(Path(target), os.path.isdir(origin))
    _mount(origin, target, None, _MS_BIND | _MS_REC)
    _set_attributes(target, attributes, recursive=True)


def _tmpfs(target: str, size: int, mode: str) -> None:
    _point(Path(target), directory=True)
    _mount("tmpfs", target, "tmpfs", _MS_NOSUID | _MS_NODEV, f"size={size},mode={mode}")


def _build_root(spec: dict[str, Any]) -> None:
    """Put together the file system the program will see and make it the root."""
    _mount("none", "/", None, _MS_REC | _MS_PRIVATE)
    _mount("tmpfs", "/tmp", "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=755")  # noqa: S108 (hidden from the host)
    Path("/tmp/newroot").mkdir()  # noqa: S108
    Path("/tmp/oldroot").mkdir()  # noqa: S108
    _pivot("/tmp", "/tmp/oldroot")  # noqa: S108
    os.chdir("/")
    _mount("tmpfs", "/newroot", "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=755")
    read_only = _ATTR_RDONLY | _ATTR_NOSUID | _ATTR_NODEV
    Path("/newroot/proc").mkdir()
    _mount("proc", "/newroot/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    Path("/newroot/dev").mkdir()
    _mount("tmpfs", "/newroot/dev", "tmpfs", _MS_NOSUID | _MS_NOEXEC, "mode=755")
    for node in spec["nodes"]:
        _bind(f"/dev/{node}", f"/dev/{node}", _ATTR_NOSUID)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        os.symlink(f"/proc/self/fd/{number}", f"/newroot/dev/{name}")
    os.symlink("/proc/self/fd", "/newroot/dev/fd")
    _tmpfs("/newroot/dev/shm", spec["tmp_bytes"], "1777")
    _tmpfs("/newroot/tmp", spec["tmp_bytes"], "1777")
    # After /tmp: this very Python may live below the host's /tmp.
    for source, inside in spec["view"]:
        _bind(source, inside, read_only)
    for target, link in spec["links"]:
        os.symlink(target, "/newroot" + link)
    for source, inside in spec["readable"]:
        _bind(source, inside, read_only)
    for source, inside in spec["writable"]:
        _bind(source, inside, _ATTR_NOSUID | _ATTR_NODEV)
    for system in spec["system"]:
        _bind(system, system, read_only)
    for device in spec["devices"]:
        _bind(device, device, _ATTR_NOSUID)
    _set_attributes("/newroot/dev", _ATTR_RDONLY, recursive=False)
    _set_attributes("/newroot", _ATTR_RDONLY, recursive=False)
    os.chdir("/newroot")
    _pivot(".", ".")
    _check(_LIBC.umount2(b".", _DETACH), "umount the host's root")
    os.chdir("/")


def _drop_capabilities() -> None:
    for capability in range(64):
        if _prctl(_PR_CAPBSET_DROP, capability) != 0:
            break
    _prctl(_PR_CAP_AMBIENT, 4)  # PR_CAP_AMBIENT_CLEAR_ALL


def _clear_capability_sets() -> None:
    header = struct.pack("=Ii", 0x20080522, 0)
    number = _SYS_CAPSET[os.uname().machine]
    _check(_LIBC.syscall(ctypes.c_long(number), header, bytes(24)), "capset")


def _become_program(spec: dict[str, Any]) -> NoReturn:
    for name, (soft, hard) in spec["limits"].items():
        resource.setrlimit(getattr(resource, name), (soft, hard))
    _drop_capabilities()
    os.setgroups([])
    os.setresgid(spec["uid"], spec["uid"], spec["uid"])
    os.setresuid(spec["uid"], spec["uid"], spec["uid"])
    _clear_capability_sets()
    os.umask(0o022)
    os.chdir(spec["cwd"])
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # ignored by Python itself, and that would be inherited
        signal.signal(number, signal.SIG_DFL)
    _check(_prctl(_PR_SET_NO_NEW_PRIVS, 1), "no_new_privs")
    program = bytes.fromhex(spec["seccomp"])
    buffer = ctypes.create_string_buffer(program, len(program))
    block = _SockFprog(len(program) // 8, ctypes.cast(buffer, ctypes.c_void_p))
    _check(_prctl(_PR_SET_SECCOMP, 2, ctypes.addressof(block)), "seccomp")
    os.execvpe(spec["argv"][0], spec["argv"], spec["env"])


def _close_all_but(*keep: int) -> None:
    previous = 2
    for fd in sorted(keep):
        os.closerange(previous + 1, fd)
        previous = max(previous, fd)
    os.closerange(previous + 1, 1 << 16)


def _first_process(spec: dict[str, Any], status_fd: int) -> NoReturn:
    """Pid 1 inside: build the root, start the program, reap until it ends. Its own end kills whatever is left."""
    _build_root(spec)
    failed_read, failed_write = os.pipe()  # closed by a successful exec
    program = os.fork()
    if program == 0:
        os.close(failed_read)
        try:
            _become_program(spec)
        except OSError as error:
            os.write(failed_write, str(error).encode())
            os._exit(127)
    os.close(failed_write)
    _close_all_but(status_fd, failed_read)
    _drop_capabilities()
    _clear_capability_sets()
    reason = os.read(failed_read, 4096)
    if reason:
        print(f"cannot run {spec['argv'][0]}: {reason.decode(errors='replace')}", file=sys.stderr, flush=True)
    os.close(failed_read)
    while True:
        pid, status = os.wait()
        if pid == program:
            code = _exit_code(status)
            os.write(status_fd, f'{{"exit-code": {code}}}\n'.encode())
            os._exit(code)


def _exit_code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def main() -> NoReturn:
    """Read the specification, make the namespaces, wait for the end inside and report it."""
    spec_fd = int(sys.argv[1])
    with open(spec_fd, "rb") as stream:
        spec: dict[str, Any] = json.load(stream)
    status_fd: int = spec["status_fd"]
    os.set_inheritable(status_fd, False)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != spec["parent"]:
        os._exit(1)
    os.setsid()
    # Whoever fills the memory of the host is the first to be killed for it.
    Path("/proc/self/oom_score_adj").write_text("1000")
    flags = _NEW_NS | _NEW_CGROUP | _NEW_UTS | _NEW_IPC | _NEW_PID | _NEW_NET
    try:
        _check(_LIBC.unshare(flags), "unshare")
        _check(_LIBC.sethostname(b"sandbox", 7), "sethostname")
        alive_read, alive_write = os.pipe()
        first = os.fork()
        if first == 0:
            os.close(alive_write)
            _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if select.select([alive_read], [], [], 0)[0]:  # at its end: the monitor died before the line above
                os._exit(1)
            os.close(alive_read)
            _first_process(spec, status_fd)
        os.write(status_fd, f'{{"child-pid": {first}}}\n'.encode())
        _close_all_but(status_fd, alive_write)
        _, status = os.waitpid(first, 0)
        os._exit(_exit_code(status))
    except OSError as error:
        print(error, file=sys.stderr, flush=True)
        os._exit(1)


if __name__ == "__main__":
    main()
