"""Whether a reference can be called as it will be, told from its source alone: nothing of it runs.

``run`` is called with the definition's inputs by position, and a generator of inputs with the axes and a device.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field

Said = tuple[int, str]
"""A line of the source, from 1, and what is to be said of it."""

_KEEPS_PARAMETERS = frozenset({"no_grad", "inference_mode", "enable_grad", "compile", "ignore", "disable"})
"""The last names of torch's decorators that leave a function's parameters as they are."""


@dataclass(slots=True)
class Checked:
    faults: list[Said] = field(default_factory=list)
    warnings: list[Said] = field(default_factory=list)


def check_source(source: str, inputs: Sequence[str] | None, entry: str | None) -> Checked:
    """What is wrong with a reference for ``inputs`` (None: they are not known) and ``entry``, its generator's name."""
    found = Checked()
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None) or 1
        found.faults.append((line, f"is not Python: {getattr(error, 'msg', None) or error or type(error).__name__}"))
        return found
    defined = _top_level_names(tree)
    if "run" not in defined:
        found.faults.append((1, "defines no run(...) at its top level"))
    elif inputs is not None:
        _check_run(_function(tree, "run"), inputs, found)
    if entry is not None and entry not in defined:
        found.faults.append((1, f"defines no {entry}(...), which custom_inputs_entrypoint names"))
    elif entry is not None and entry != "run":
        _check_generator(_function(tree, entry), found)
    return found


def fault_of_program(source: str, inputs: Sequence[str], outputs: Sequence[str]) -> Said | None:
    """Why a baseline cannot be called as it will be, with all inputs and then all outputs by position; None if it can.
    """
    checked = check_source(source, None, None)
    if checked.faults:
        return checked.faults[0]
    function = _function(ast.parse(source), "run")
    if function is None or not (message := _misfit(function, len(inputs) + len(outputs))):
        return None
    taken = ", ".join(each.arg for each in (*function.args.posonlyargs, *function.args.args))
    return function.lineno, f"run({taken}) {message}; it is called with {', '.join((*inputs, *outputs))}"


def texts_in(source: str) -> frozenset[str]:
    """The texts that stand in ``source``, such as the names of axes that a generator asks for."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    return frozenset(n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str))


def _check_run(function: ast.FunctionDef | None, inputs: Sequence[str], found: Checked) -> None:
    if function is None:
        return
    taken = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    message = _misfit(function, len(inputs))
    if message:
        stated = f"the definition has {len(inputs)} input{'s' * (len(inputs) != 1)} ({', '.join(inputs)})"
        found.faults.append((function.lineno, f"run({', '.join(taken)}) {message}; {stated}"))
        return
    differ = [f"{mine} for {theirs}" for mine, theirs in zip(taken, inputs, strict=False) if mine != theirs]
    if differ:
        moved = set(taken) & set(inputs) and set(taken[: len(inputs)]) == set(inputs)
        why = "they are in another order" if moved else "they have other names"
        message = f"run takes {', '.join(differ)}: inputs are passed by position, and {why} in the definition"
        found.warnings.append((function.lineno, message))


def _check_generator(function: ast.FunctionDef | None, found: Checked) -> None:
    message = _misfit(function, 2) if function is not None else ""
    if function is not None and message:
        said = f"{function.name} {message}; it is called with the axes (a dict) and the device"
        found.faults.append((function.lineno, said))


def _misfit(function: ast.FunctionDef, given: int) -> str:
    """Why ``function`` cannot be called with ``given`` values by position, empty where it can."""
    arguments = function.args
    most = len(arguments.posonlyargs) + len(arguments.args)
    least = most - len(arguments.defaults)
    named = [a.arg for a, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if value is None]
    if named:
        return f"needs {', '.join(named)} by name, and is called by position"
    if given < least or (given > most and arguments.vararg is None):
        takes = f"{least} or more" if arguments.vararg else f"{least} to {most}" if least < most else str(least)
        return f"takes {takes} parameter{'s' * (takes != '1')}"
    return ""


def _function(tree: ast.Module, name: str) -> ast.FunctionDef | None:
    """The function that ``name`` is at last, where nothing makes another one of it."""
    last: ast.FunctionDef | None = None
    for node in tree.body:
        if name in _names_of(node):
            last = node if isinstance(node, ast.FunctionDef) else None
        elif not isinstance(node, ast.FunctionDef | ast.ClassDef):  # a block, which may define it as well
            last = None if any(name in _names_of(each) for each in ast.walk(node)) else last
    if last is None or not all(_keeps_parameters(each) for each in last.decorator_list):
        return None
    return last


def _keeps_parameters(decorator: ast.expr) -> bool:
    target = decorator.func if isinstance(decorator, ast.Call) else decorator
    return isinstance(target, ast.Attribute) and target.attr in _KEEPS_PARAMETERS


def _top_level_names(tree: ast.Module) -> set[str]:
    return {name for node in tree.body for name in _names_of(node)}


def _names_of(node: ast.AST) -> set[str]:
    """The names that a statement defines."""
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.Assign(targets=targets):
            return {target.id for target in targets if isinstance(target, ast.Name)}
        case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
            return {alias.asname or alias.name for alias in aliases}
        case _:
            return set()
