"""Axis expressions in C++: the part of ``agentcore.problems.expressions`` that is whole numbers throughout.

Not for evaluating them.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

_OPERATORS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}
_CALLS: dict[type[ast.operator], str] = {ast.FloorDiv: "floor_div", ast.Mod: "modulo", ast.Pow: "power"}
_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}


class NotExpressible(ValueError):
    """The expression leaves the whole numbers; the message names it."""


def in_cpp(text: str, names: Mapping[str, str]) -> str:
    """The expression with axes under their C++ ``names``, using floor_div, modulo and power. Raises NotExpressible."""
    try:
        return _written(ast.parse(text.strip(), mode="eval").body, names)
    except (KeyError, SyntaxError, ValueError, RecursionError):
        raise NotExpressible(f"{text!r} cannot be written in whole numbers of C++") from None


def _written(node: ast.expr, names: Mapping[str, str]) -> str:
    match node:
        case ast.Constant(value=bool()):
            pass
        case ast.Constant(value=int() as number) if 0 <= number < 1 << 62:
            return f"int64_t({number})"
        case ast.Name(id=name):
            return names[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return f"(-{_written(operand, names)})"
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _written(operand, names)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return f"({_written(left, names)} {_OPERATORS[type(op)]} {_written(right, names)})"
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _CALLS:
            return f"{_CALLS[type(op)]}({_written(left, names)}, {_written(right, names)})"
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARISONS:
            return f"int64_t({_written(left, names)} {_COMPARISONS[type(op)]} {_written(right, names)})"
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return f"({_written(test, names)} ? {_written(body, names)} : {_written(orelse, names)})"
        case ast.Call(func=ast.Name(id="min" | "max" as function), args=[first, second], keywords=[]):
            return f"std::{function}<int64_t>({_written(first, names)}, {_written(second, names)})"
        case ast.Call(func=ast.Name(id="ceil_div"), args=[first, second], keywords=[]):
            return f"(-floor_div(-{_written(first, names)}, {_written(second, names)}))"
        case ast.Call(func=ast.Name(id="abs"), args=[value], keywords=[]):
            return f"std::abs({_written(value, names)})"
        case ast.Call(func=ast.Name(id="int"), args=[value], keywords=[]):
            return _written(value, names)
        case _:
            pass
    raise NotExpressible
