"""What a killed server leaves of a push is removed; what somebody holds, or what is no such directory, stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from agentcore.gitstore.scratch import scratch_directory, sweep

_HOLD = (
    "import sys, pathlib\nfrom agentcore.gitstore.scratch import scratch_directory\n"
    "with scratch_directory(pathlib.Path(sys.argv[1])) as place:\n"
    "    (place / 'received').write_text('refs')\n    print(place.name, flush=True)\n    sys.stdin.read()\n"
)


def test_only_old_directories_of_the_dead_are_removed(tmp_path: Path) -> None:
    with scratch_directory(tmp_path) as place:
        assert place.stat().st_mode & 0o777 == 0o700
        os.utime(place, (0, 0))
        assert sweep(tmp_path, 60) == []  # held by this very process
    assert not place.exists()
    owner = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    left = tmp_path / owner.stdout.readline().strip()
    os.utime(left, (0, 0))
    assert sweep(tmp_path, 60) == []  # held by another process
    owner.send_signal(signal.SIGKILL)
    owner.communicate()
    (tmp_path / "kernelyard-push-fresh").mkdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    os.utime(elsewhere, (0, 0))
    (tmp_path / "kernelyard-push-link").symlink_to(elsewhere)
    assert sweep(tmp_path, 60) == [left.name]
    assert {path.name for path in tmp_path.iterdir()} == {"kernelyard-push-fresh", "kernelyard-push-link", "elsewhere"}
