"""Parquet files of a published dataset: one problem a row, nested members as JSON text or as nested columns.

SOL-ExecBench publishes ``name, description, hf_id, axes, inputs, outputs, reference, custom_inputs_entrypoint`` and
``workloads``, of which ``axes``, ``inputs``, ``outputs`` and ``workloads`` are JSON text. Needs pyarrow,
which is an optional dependency.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agentcore.problems.documents import find_unstorable
from agentcore.problems.errors import ProblemError
from agentcore.problems.items import Item
from agentcore.problems.sources.rows import MAX_PROBLEMS

MAX_FILE_BYTES = 1 << 30
MAX_UNPACKED_BYTES = 4 << 30
_ROWS_AT_ONCE = 16


def rows(file: Path) -> Iterator[Item | ProblemError]:
    """One object for each row of ``file``; an error where it cannot be read."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        yield ProblemError.at(file, None, "", "needs pyarrow to be read: pip install 'kernelyard[parquet]'")
        return
    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            yield ProblemError.at(file, None, "", f"is larger than {MAX_FILE_BYTES >> 20} MiB")
            return
        # Not memory-mapped: a file that shrinks while it is read must not kill us.
        with pyarrow.parquet.ParquetFile(file, memory_map=False) as table:
            metadata = table.metadata
            groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
            if metadata.num_rows > MAX_PROBLEMS or sum(group.total_byte_size for group in groups) > MAX_UNPACKED_BYTES:
                limits = f"{MAX_PROBLEMS:,} rows or {MAX_UNPACKED_BYTES >> 30} GiB unpacked"
                yield ProblemError.at(file, None, "", f"holds more than {limits}")
                return
            number = 0
            for batch in table.iter_batches(batch_size=_ROWS_AT_ONCE):
                for row in batch.to_pylist():
                    item = Item(Path(f"{file}: row {number}"), "", _without_absent(row), None)
                    number += 1
                    # What parse_json refuses in the other layouts.
                    broken = find_unstorable(item.value) is not None
                    yield item.error("", "holds a NUL or half a surrogate pair") if broken else item
    except (pyarrow.ArrowException, OSError, ValueError, UnicodeDecodeError) as error:
        yield ProblemError.at(file, None, "", f"cannot be read as parquet: {' '.join(str(error).split())[:300]}")


def _without_absent(value: Any) -> Any:
    """``value`` as JSON has it, without null members: nested columns have every row's members in each of them.

    A null shape stays beside a dtype, where it says that the parameter is a scalar.
    """
    if isinstance(value, dict):
        scalar = {"shape": None} if "shape" in value and value.get("dtype") is not None else {}
        return scalar | {key: _without_absent(member) for key, member in value.items() if member is not None}
    if isinstance(value, list):
        return [_without_absent(member) for member in value]
    if isinstance(value, bytes):  # text, in files whose writer did not say so
        return value.decode("utf-8", "backslashreplace")
    # Times, decimals and whatever else a column of another purpose holds.
    return value if value is None or isinstance(value, str | int | float) else str(value)
