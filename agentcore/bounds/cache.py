"""Counted work on disk, by content: a workload is counted once, whoever asks and however long that took."""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

import torch

from agentcore.bounds.count import COUNTER_VERSION, Work, count
from agentcore.bounds.cpu import default_cache_dir
from agentcore.problems.loading import Problem, find_blob
from agentcore.problems.tensors import InputFactory
from agentcore.problems.workload import SafetensorsInput, Workload

_WORTH_S = 0.2
"""Counting that takes less is repeated rather than kept."""


def cached_count(
    problem: Problem, workload: Workload, factory: InputFactory | None = None, cache_dir: Path | None = None
) -> Work:
    """As :func:`agentcore.bounds.count.count`, from ``cache_dir`` (default: the user's) where it was counted before.

    The key covers the problem's digest, the workload, the safetensors files it names (path, size, time of change), and
    the versions of the counter and of torch. A cache that cannot be read or written costs time, not an error.
    """
    file = (cache_dir or default_cache_dir()) / "work" / f"{_key(problem, workload)}.json"
    try:
        kept = json.loads(file.read_text("utf-8"))
        return Work(**kept | {"notes": tuple(kept["notes"])})
    except (OSError, ValueError, KeyError, TypeError):
        pass
    begun = time.monotonic()
    work = count(problem, workload, factory)
    if time.monotonic() - begun > _WORTH_S:
        _keep(file, work)
    return work


def _key(problem: Problem, workload: Workload) -> str:
    blobs = []
    for source in workload.inputs.values():
        if isinstance(source, SafetensorsInput):
            found = find_blob(problem.root, source.path)
            status = found.stat() if found else None
            blobs.append([source.path, status and status.st_size, status and status.st_mtime_ns])
    content = [COUNTER_VERSION, torch.__version__, problem.digest, workload.model_dump(mode="json"), blobs]
    return hashlib.sha256(json.dumps(content, separators=(",", ":")).encode()).hexdigest()[:32]


def _keep(file: Path, work: Work) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False, suffix=".tmp") as partial:
            json.dump(asdict(work), partial)
        Path(partial.name).replace(file)
    except OSError:
        pass
