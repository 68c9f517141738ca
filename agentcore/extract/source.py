"""The operator's files: ``module.py:Model`` and the example calls. Both are executed here: they are the operator's own.

The file with the examples defines ``examples`` (a function or a list): one entry per call of the model, each a tensor,
a tuple of positional arguments or a dict of keyword arguments. It may also define ``AXES`` (names of the dimensions
that differ between calls, such as ``{"hidden_states": {1: "tokens"}}``) and ``SIZES`` (names of constant sizes, such
as ``{4096: "hidden"}``).
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
import traceback
import types
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_flatten

from agentcore.extract.errors import ExtractError

MAX_EXAMPLES = 32


@dataclass(frozen=True, slots=True)
class Call:
    """One example call: arguments by parameter name, and their leaves in torch's own order."""

    arguments: dict[str, Any]
    leaves: tuple[Any, ...]

    @property
    def tensor_elements(self) -> int:
        """Elements of all tensor arguments together."""
        return sum(leaf.numel() for leaf in self.leaves if isinstance(leaf, torch.Tensor))


@dataclass(frozen=True, slots=True)
class Examples:
    """The calls, and what the operator calls dimensions: by argument and position, and by constant size."""

    calls: tuple[Call, ...]
    axes: dict[str, dict[int, str]] = field(default_factory=dict)
    sizes: dict[int, str] = field(default_factory=dict)


def load_model(spec: str) -> tuple[torch.nn.Module, str]:
    """The module that ``FILE.py:NAME`` builds, in evaluation mode, and its name.

    NAME is a module, or a class or function that makes one without arguments. Raises ExtractError.
    """
    file, name = _split(spec, None)
    value = _attribute(_execute(file), file, name, torch.nn.Module)
    if not isinstance(value, torch.nn.Module):
        if not callable(value):
            raise ExtractError(f"{file}: {name} is a {type(value).__name__}; name a Module, or what makes one")
        try:
            value = value()
        except Exception as error:
            raise ExtractError(
                f"{file}: {name}() failed: {type(error).__name__}: {error}{own_frame(error, file)}; name a function"
                " without arguments that builds the model"
            ) from error
    if not isinstance(value, torch.nn.Module):
        raise ExtractError(f"{file}: {name}() made a {type(value).__name__}, not a torch.nn.Module")
    return value.eval(), name


def load_examples(spec: str, model: torch.nn.Module) -> Examples:
    """The example calls of ``FILE.py[:NAME]`` (NAME is ``examples`` unless given). Raises ExtractError."""
    file, name = _split(spec, "examples")
    module = _execute(file)
    found = _attribute(module, file, name, list, tuple, torch.Tensor)
    if callable(found):
        try:
            found = found()
        except Exception as error:
            raise ExtractError(
                f"{file}: {name}() failed: {type(error).__name__}: {error}{own_frame(error, file)}"
            ) from error
    if isinstance(found, torch.Tensor | tuple | dict):
        found = [found]
    entries = list(found)
    if not 1 <= len(entries) <= MAX_EXAMPLES:
        raise ExtractError(f"{file}: {name} gives {len(entries)} example calls; give 1 to {MAX_EXAMPLES}")
    calls = [_call(model, entry, f"{file}: {name}: example {index}") for index, entry in enumerate(entries)]
    return Examples(_alike(calls, f"{file}: {name}"), _mapping(module, "AXES"), _mapping(module, "SIZES"))


def own_frame(error: BaseException, file: Path | None = None) -> str:
    """`` (at FILE:LINE: source)`` for the innermost frame outside torch and this package, or nothing."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = (str(Path(torch.__file__).parent), str(Path(__file__).parent.parent), "<")
    own = [f for f in frames if not f.filename.startswith(ours) and "site-packages" not in f.filename]
    if file is not None:
        own = [f for f in own if Path(f.filename).resolve() == file.resolve()] or own
    if not own:
        return ""
    return f" (at {own[-1].filename}:{own[-1].lineno}: {(own[-1].line or '').strip()[:120]})"


def _split(spec: str, default: str | None) -> tuple[Path, str]:
    path, _, name = spec.rpartition(":") if spec.rpartition(":")[2].isidentifier() else (spec, "", "")
    if not path:
        path = spec
    if not name:
        if default is None:
            raise ExtractError(f"{spec}: say which model, as in module.py:Model")
        name = default
    file = Path(path)
    if not file.is_file():
        raise ExtractError(f"{file}: there is no such file")
    return file, name


def _execute(file: Path) -> types.ModuleType:
    """Run the file as a module, with its directory importable, as ``python FILE`` would have it."""
    directory = str(file.resolve().parent)
    name = f"kernelyard_extract_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ExtractError(f"{file}: is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    if directory not in sys.path:
        sys.path.insert(0, directory)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ExtractError(f"{file}: {type(error).__name__}: {error}{own_frame(error, file)}") from error
    return module


def _attribute(module: types.ModuleType, file: Path, name: str, *values: type) -> Any:
    """``module.name``. Where it has none, its own classes and functions are offered, and what is one of ``values``."""
    if not hasattr(module, name):
        known = [
            key for key, value in vars(module).items() if not key.startswith("_") and (
                value.__module__ == module.__name__ if isinstance(value, type | types.FunctionType)
                else isinstance(value, values)
            )
        ]  # fmt: skip
        raise ExtractError(f"{file}: defines no {name}; it has {', '.join(known[:20]) or 'nothing'}")
    return getattr(module, name)


def _mapping(module: types.ModuleType, name: str) -> dict[Any, Any]:
    value = getattr(module, name, {})
    if not isinstance(value, Mapping):
        raise ExtractError(f"{module.__file__}: {name} must be a dict")
    return dict(value)


def _call(model: torch.nn.Module, entry: Any, where: str) -> Call:
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    if isinstance(entry, Mapping):
        kwargs = dict(entry)
    else:
        args = tuple(entry) if isinstance(entry, tuple | list) else (entry,)
    signature = inspect.signature(model.forward)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise ExtractError(f"{where}: does not fit forward{signature}: {error}") from None
    arguments: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            arguments |= value
        elif kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.POSITIONAL_ONLY):
            raise ExtractError(f"{where}: parameter {name!r} cannot be given by name; wrap the model in a Module")
        else:
            arguments[name] = value
    return Call(arguments, tuple(tree_flatten(arguments)[0]))


def _alike(calls: list[Call], where: str) -> tuple[Call, ...]:
    first = calls[0]
    structure = tree_flatten(first.arguments)[1]
    for index, call in enumerate(calls[1:], start=1):
        if tree_flatten(call.arguments)[1] != structure:
            raise ExtractError(f"{where}: example {index} has other arguments than example 0; extract them one by one")
        for position, (a, b) in enumerate(zip(first.leaves, call.leaves, strict=True)):
            if isinstance(a, torch.Tensor) != isinstance(b, torch.Tensor):
                raise ExtractError(f"{where}: argument {position} of example {index} is a tensor in one example only")
            if isinstance(a, torch.Tensor):
                if a.dtype != b.dtype or a.dim() != b.dim():
                    raise ExtractError(
                        f"{where}: argument {position} is {a.dtype} of {a.dim()} dimensions in example 0,"
                        f" {b.dtype} of {b.dim()} in example {index}; extract them one by one"
                    )
            elif a != b:
                raise ExtractError(
                    f"{where}: argument {position} is {a!r} in example 0, {b!r} in example {index}: only shapes and"
                    " contents of tensors may differ; extract them one by one"
                )
    return tuple(calls)
