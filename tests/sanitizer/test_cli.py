"""What ``kernelyard sanitize`` cannot do is said in a line, with exit status 2 and before anything is built."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcore.cli import main

ROOT = Path(__file__).resolve().parents[2]
PROBLEM, KERNELS = ROOT / "problems" / "rmsnorm_h4096", ROOT / "kernels_repo" / "kernels" / "rmsnorm_h4096"


@pytest.mark.parametrize(
    ("kernel", "options", "said"),
    [
        ("triton", [], "no sanitizer looks at triton kernels anywhere"),
        ("cuda", ["--hardware", "cpu"], "no sanitizer looks at cuda kernels on cpu; give another --hardware"),
        ("cpp", ["--workloads", "0"], "--workloads must be at least 1"),
        ("nowhere", [], "nowhere is not a directory; name the one that holds the kernel's source"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(
    kernel: str, options: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sanitize", str(PROBLEM), str(KERNELS / kernel), "--cache-dir", str(tmp_path), *options]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("kernelyard sanitize: ") and line.endswith(said)
