"""Integer arithmetic over axis names, as ``axes.*.expression`` and shape entries use it.

A small interpreter over Python's own syntax tree: only arithmetic, comparisons, conditionals and a few functions.
Nothing here calls ``eval``; an expression cannot reach an attribute, a subscript or a name that is not an axis.
"""

from __future__ import annotations

import ast
import functools
import math
import operator
from collections.abc import Callable, Mapping

from agentcore.problems.errors import ExpressionError

Number = int | float

_MAX_LENGTH = 500
_MAX_EXPONENT = 64
_MAX_VALUE = 1 << 62

_BINARY: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda a, b: a // b if isinstance(a, int) and isinstance(b, int) and b and a % b == 0 else a / b,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Number, Number], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_FUNCTIONS: dict[str, Callable[..., Number]] = {
    "min": min,
    "max": max,
    "abs": abs,
    "int": int,
    "round": round,
    "ceil": math.ceil,
    "floor": math.floor,
    "ceil_div": lambda a, b: -(-a // b),
    "sqrt": math.sqrt,
    "log2": math.log2,
}


@functools.lru_cache(maxsize=4096)
def _parse(text: str) -> ast.expr:
    if len(text) > _MAX_LENGTH:
        raise ExpressionError(f"expression is longer than {_MAX_LENGTH} characters")
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError) as error:
        raise ExpressionError(f"{text!r} is not an arithmetic expression: {error}") from None


def names(text: str) -> frozenset[str]:
    """The axis names that ``text`` mentions. Raises ExpressionError where it does not parse or calls something else."""
    tree = _parse(text)
    called: set[str | None] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            if (name := _function_name(node)) not in _FUNCTIONS:
                raise _not_allowed(node, text)
            called.add(name)
    found = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return frozenset(found - called - {"math"})


def evaluate(text: str, values: Mapping[str, int]) -> int:
    """The integer value of ``text`` with axes bound to ``values``.

    Raises ExpressionError for a syntax outside the arithmetic subset, an unknown name, a division by zero, or a result
    that is not a whole number.
    """
    try:
        result = _value(_parse(text), values, text)
    except (ZeroDivisionError, OverflowError, TypeError, ValueError, RecursionError) as error:
        if isinstance(error, ExpressionError):
            raise
        raise ExpressionError(f"{text!r} cannot be evaluated: {error}") from None
    if isinstance(result, float) and result.is_integer():
        result = int(result)
    if not isinstance(result, int):
        raise ExpressionError(f"{text!r} gives {result}, which is not a whole number; use // or ceil()")
    return int(result)


def _function_name(node: ast.Call) -> str | None:
    func = node.func
    if isinstance(func, ast.Name):
        return func.id
    if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == "math":
        return func.attr
    return None


def _value(node: ast.expr, values: Mapping[str, int], text: str) -> Number:
    match node:
        case ast.Constant(value=bool()):
            pass
        case ast.Constant(value=int() | float() as constant):
            return constant
        case ast.Name(id=name):
            if name in values:
                return values[name]
            raise ExpressionError(f"{text!r} uses {name!r}, which is not an axis (axes: {', '.join(values) or 'none'})")
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, values, text)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand, values, text)
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            base, exponent = _value(left, values, text), _value(right, values, text)
            if abs(exponent) > _MAX_EXPONENT:
                raise ExpressionError(f"{text!r} raises to a power above {_MAX_EXPONENT}")
            return _bounded(base**exponent, text)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _bounded(_BINARY[type(op)](_value(left, values, text), _value(right, values, text)), text)
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARE:
            return int(_COMPARE[type(op)](_value(left, values, text), _value(right, values, text)))
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return _value(body if _value(test, values, text) else orelse, values, text)
        case ast.Call(args=arguments, keywords=[]) if (function := _FUNCTIONS.get(_function_name(node) or "")):
            return _bounded(function(*(_value(argument, values, text) for argument in arguments)), text)
        case _:
            pass
    raise _not_allowed(node, text)


def _not_allowed(node: ast.expr, text: str) -> ExpressionError:
    return ExpressionError(
        f"{text!r} uses {ast.unparse(node)!r}; allowed are numbers, axis names, + - * / // % **, comparisons, "
        f"'a if c else b' and {', '.join(_FUNCTIONS)}"
    )


def _bounded(value: Number, text: str) -> Number:
    if isinstance(value, complex) or abs(value) > _MAX_VALUE:
        raise ExpressionError(f"{text!r} gives a value beyond 2**62")
    return value
