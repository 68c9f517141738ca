"""What files a program in the sandbox can read and write, and which paths it may be given."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from agentcore.sandbox import MIB, Bind, Limits, SandboxError
from agentcore.sandbox.view import python_prefixes

# Empty, unless this very Python lives below /tmp.
OWN_TMP = {path.relative_to("/tmp").parts[0] for path in python_prefixes() if path.is_relative_to("/tmp")}


def test_tmp_is_private_writable_and_bounded(python, sandbox):
    limits = Limits(wall_s=30, tmp_bytes=8 * MIB)
    for place in ("/tmp", "/dev/shm"):
        done = python(
            f"""
with open("{place}/small", "wb") as f: f.write(b"x" * (1 << 20))
try:
    with open("{place}/large", "wb") as f:
        for _ in range(64): f.write(b"x" * (1 << 20))
    print("unbounded")
except OSError as error: print(error.errno)
""",
            limits=limits,
        )
        assert done.stdout.strip() == str(errno.ENOSPC).encode(), done.stderr
    assert not Path("/tmp/small").exists()
    assert set(python("import os; print(*os.listdir('/tmp'))").stdout.decode().split()) <= OWN_TMP


def test_nothing_else_can_be_written(python):
    done = python("""
import os
wrote = []
for root, directories, _ in os.walk("/"):
    directories[:] = [d for d in directories if not (root == "/" and d in ("proc", "tmp")) and root.count("/") < 4]
    try:
        open(os.path.join(root, "mark"), "w").close(); wrote.append(root)
    except OSError: pass
print(wrote)
""")
    assert done.stdout == b"['/dev/shm']\n", done.stderr


def test_readable_paths_are_read_only_and_writable_ones_arrive(python, tmp_path):
    given, out = tmp_path / "given", tmp_path / "out ünïcode"
    given.mkdir()
    (given / "source").write_text("content")
    out.mkdir()
    done = python(
        f"""
print(open({str(given / "source")!r}).read())
open({str(out / "result")!r}, "w").write("made")
for path in ({str(given / "new")!r}, {str(given / "source")!r}):
    try: open(path, "w"); print("wrote", path)
    except OSError as error: print(error.errno)
""",
        readable=[given],
        writable=[out],
        cwd=given,
    )
    assert done.stdout.decode().split() == ["content", str(errno.EROFS), str(errno.EROFS)], done.stderr
    assert (out / "result").read_text() == "made"
    assert (given / "source").read_text() == "content"


def test_a_path_can_appear_at_another_place(python, tmp_path):
    (tmp_path / "shown").mkdir()
    (tmp_path / "shown" / "file").write_text("here")
    shown = Bind(tmp_path / "shown", Path("/data/inner"))
    done = python("print(open('/data/inner/file').read())", readable=[shown], cwd=Path("/data"))
    assert done.stdout == b"here\n", done.stderr


def test_devices_are_passed_one_by_one(python):
    program = "import os; print(*map(os.path.exists, ('/dev/urandom', '/dev/kmsg', '/dev/kvm', '/sys/class')))"
    assert python(program).stdout == b"True False False False\n"
    if Path("/dev/loop0").exists():
        done = python(
            "import os; print(*map(os.path.exists, ('/dev/loop0', '/dev/loop1', '/sys/class')))",
            devices=[Path("/dev/loop0")],
        )
        assert done.stdout == b"True False True\n", done.stderr


def test_a_missing_path_is_named(sandbox, tmp_path):
    with pytest.raises(SandboxError, match="nowhere"):
        sandbox.run(["true"], readable=[tmp_path / "nowhere"])


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user's sandbox has the user's own rights")
def test_a_path_that_the_sandboxs_user_may_not_read_is_named(sandbox, tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(SandboxError, match=r"closed.*not readable to others"):
        sandbox.run(["true"], readable=[closed])
