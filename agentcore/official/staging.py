"""From an official solution to a kernel directory of ours: its sources, and a ``kernel.py`` that calls its entry point.

The judge's runner calls ``run(*inputs, *outputs)`` of a ``kernel.py``. The one written here loads the solution's entry
point, a Python function or an extension module with torch's binding, and passes the call on; what a value-returning
one returns is checked for shape and dtype and copied to the outputs. All of that runs in the sandbox, beside the
candidate, and so decides nothing. Nothing here builds or runs anything.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agentcore.build.files import write_tree
from agentcore.official.solution import OfficialSolution
from agentcore.problems import Definition

ADAPTER = "kernel.py"
EXTENSION = "kernel.so"
EXTENSION_NAME = "benchmark_kernel"
"""The module name that SOL-ExecBench gives an extension (TORCH_EXTENSION_NAME)."""

_PACKAGE = "ky_sources"
"""Where the sources lie. A package, so that relative imports work; on the path too, so that plain ones do."""

_HEAD = '''"""Generated: calls an official solution's entry point the way this harness calls kernels."""

import importlib
import importlib.machinery
import importlib.util
import sys
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent
'''

_PYTHON = '''
SOURCES = HERE / {package!r}
# The runner's own modules, and this one, must not be taken for the solution's files of the same name.
for _name in [*sys.modules]:
    if _name != "__main__" and ((SOURCES / (_name + ".py")).is_file() or (SOURCES / _name).is_dir()):
        _file = getattr(sys.modules[_name], "__file__", None)
        if _file and Path(_file).resolve().parent in (HERE, Path(sys.argv[0]).resolve()):
            del sys.modules[_name]
sys.path[:0] = [str(SOURCES), str(HERE)]
entry = getattr(importlib.import_module({module!r}), {function!r})
'''

_COMPILED = '''
_loader = importlib.machinery.ExtensionFileLoader({name!r}, str(HERE / {file!r}))
_spec = importlib.util.spec_from_file_location({name!r}, str(HERE / {file!r}), loader=_loader)
_module = importlib.util.module_from_spec(_spec)
_loader.exec_module(_module)
entry = getattr(_module, {function!r})
'''

_OUTPUTS_LAST = '''
run = entry
'''

_OUTPUTS_RETURNED = '''
OUTPUTS = {outputs!r}


def run(*arguments):
    outputs = arguments[len(arguments) - len(OUTPUTS):]
    returned = entry(*arguments[:len(arguments) - len(OUTPUTS)])
    if isinstance(returned, dict):
        missing = [name for name in OUTPUTS if name not in returned]
        if missing:
            raise ValueError("the entry point returned no " + ", ".join(missing))
        returned = [returned[name] for name in OUTPUTS]
    elif not isinstance(returned, (tuple, list)):
        returned = [returned]
    if len(returned) != len(OUTPUTS):
        raise ValueError(f"the entry point returned {{len(returned)}} values for {{len(OUTPUTS)}} outputs")
    for name, value, output in zip(OUTPUTS, returned, outputs):
        if not isinstance(value, torch.Tensor):
            value = torch.tensor(value, dtype=output.dtype, device=output.device)
        if value.shape != output.shape or value.dtype != output.dtype:
            raise ValueError(
                f"the entry point returned {{value.dtype}} {{list(value.shape)}} for {{name!r}};"
                f" the definition says {{output.dtype}} {{list(output.shape)}}"
            )
        value = value.detach()
        if value.dtype.is_floating_point and value.dtype.itemsize == 1:  # few operations know the small types
            value, output = value.view(torch.uint8), output.view(torch.uint8)
        output.copy_(value)
'''


def adapter(solution: OfficialSolution, definition: Definition) -> str:
    """The text of the ``kernel.py`` for a solution."""
    spec = solution.spec
    if spec.is_cpp:
        load = _COMPILED.format(name=EXTENSION_NAME, file=EXTENSION, function=spec.entry_function)
    else:
        module = ".".join((_PACKAGE, *Path(spec.entry_file).with_suffix("").parts))
        load = _PYTHON.format(package=_PACKAGE, module=module, function=spec.entry_function)
    call = _OUTPUTS_LAST if spec.destination_passing_style else _OUTPUTS_RETURNED.format(
        outputs=tuple(definition.outputs)
    )
    return _HEAD + load + call


@contextmanager
def staged(solution: OfficialSolution, definition: Definition) -> Iterator[Path]:
    """A kernel directory for the solution, readable to the sandbox; gone afterwards.

    Of a Python solution it is what the runner loads. Of a C++ one it only says what was judged: the extension is built
    by ``extension`` and loaded from the build cache.
    """
    files = {f"{_PACKAGE}/{path}": content for path, content in solution.files.items()}
    with tempfile.TemporaryDirectory(prefix="kernelyard-official-") as place:
        Path(place).chmod(0o755)
        directory = Path(place) / "kernel"
        write_tree(directory, {ADAPTER: adapter(solution, definition).encode(), **files})
        yield directory
