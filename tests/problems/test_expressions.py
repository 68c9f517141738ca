from __future__ import annotations

import pytest

from agentcore.problems import ExpressionError
from agentcore.problems.expressions import evaluate, names

AXES = {"a": 7, "b": 2, "num_heads": 32}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("num_heads * (a + b)", 288),
        ("(a * b) // 4", 3),
        ("a % b", 1),
        ("-a + 10", 3),
        ("num_heads / 4", 8),
        ("2 ** 10", 1024),
        ("ceil(a / b)", 4),
        ("math.ceil(a / b)", 4),
        ("ceil_div(a, b)", 4),
        ("max(min(a, 5), b)", 5),
        ("a if a > b else b", 7),
        ("256", 256),
    ],
)
def test_arithmetic_gives_the_value_python_would_give(text: str, value: int) -> None:
    assert evaluate(text, AXES) == value


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a / b", "not a whole number"),
        ("c + 1", "'c', which is not an axis"),
        ("a // 0", "cannot be evaluated"),
        ("a.__class__", "uses 'a.__class__'"),
        ("__import__('os').system('true')", "allowed are"),
        ("[a][0]", "allowed are"),
        ("open('x')", "allowed are"),
        ("lambda: 1", "allowed are"),
        ("True", "allowed are"),
        ("9 ** 9 ** 9", "power above"),
        ("2 ** 63", "beyond 2**62"),
        ("a +", "is not an arithmetic expression"),
        ("1" * 501, "longer than"),
        ("(" * 240 + "a" + ")" * 240, "is not an arithmetic expression"),
    ],
)
def test_anything_but_whole_number_arithmetic_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(ExpressionError, match=complaint.replace("*", r"\*")):
        evaluate(text, AXES)


def test_function_names_are_not_taken_for_axes() -> None:
    assert names("max(a, math.ceil(b / 2))") == {"a", "b"}
