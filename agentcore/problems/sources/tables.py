"""Parquet files of a published dataset: one problem a row, nested members as JSON text or as nested columns.

Nested columns lose the order of a row's members among those of other rows: inputs are put back into the order of the
reference's parameters, and several outputs whose order is lost are refused.

SOL-ExecBench publishes ``name, description, hf_id, axes, inputs, outputs, reference, custom_inputs_entrypoint`` and
``workloads``, of which ``axes``, ``inputs``, ``outputs`` and ``workloads`` are JSON text. Needs pyarrow,
which is an optional dependency.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
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
    if not file.is_file():  # a pipe would be waited for
        yield ProblemError.at(file, None, "", "is not a regular file")
        return
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
            nested = {field.name: field.type.num_fields for field in table.schema_arrow
                      if pyarrow.types.is_struct(field.type)}  # fmt: skip
            number = 0
            for batch in table.iter_batches(batch_size=_ROWS_AT_ONCE):
                for row in batch.to_pylist():
                    item = Item(Path(f"{file}: row {number}"), "", _without_absent(row), None)
                    number += 1
                    # What parse_json refuses in the other layouts.
                    broken = find_unstorable(item.value) is not None
                    if broken:
                        yield item.error("", "holds a NUL or half a surrogate pair")
                    else:
                        yield _ordered(item, nested) if metadata.num_rows > 1 else item
    except (pyarrow.ArrowException, OSError, ValueError, UnicodeDecodeError) as error:
        yield ProblemError.at(file, None, "", f"cannot be read as parquet: {' '.join(str(error).split())[:300]}")


def _ordered(item: Item, nested: Mapping[str, int]) -> Item | ProblemError:
    """The row with its nested inputs in the order of the reference's parameters. ``nested``: members of all rows."""
    inputs, outputs = (item.value.get(key) for key in ("inputs", "outputs"))
    if isinstance(outputs, dict) and 1 < len(outputs) < nested.get("outputs", 0):
        message = "is a nested column, in which the order of a row's outputs is lost; store it as JSON text"
        return item.error("outputs", message)
    if isinstance(inputs, dict) and "inputs" in nested:
        named = [name for name in _parameters(item.value.get("reference")) if name in inputs]
        item.value["inputs"] = {name: inputs[name] for name in (*named, *(n for n in inputs if n not in named))}
    return item


def _parameters(reference: Any) -> list[str]:
    """The parameters of the reference's ``run``; none where it cannot be read, which is said elsewhere."""
    try:
        tree = ast.parse(reference)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return []
    runs = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "run"]
    return [a.arg for run in runs[-1:] for a in (*run.args.posonlyargs, *run.args.args)]


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
