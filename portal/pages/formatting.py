"""Numbers as engineers read them: three significant digits, a unit, an em dash for nothing.

Not for exports: CSV and JSON carry the unrounded value.
"""

from __future__ import annotations

import math

NOTHING = "–"


def _finite(value: object) -> float | None:
    if value is None or isinstance(value, str):
        return None
    number = float(value)  # type: ignore[arg-type]
    return number if math.isfinite(number) else None


def significant(value: object, digits: int = 3) -> str:
    """``1234.5`` → ``1,230``; ``0.0123456`` → ``0.0123``; zeros kept, so that columns read alike (``1.00``)."""
    number = _finite(value)
    if number is None:
        return NOTHING
    if number == 0:
        return "0"
    exponent = math.floor(math.log10(abs(number)))
    rounded = round(number, digits - 1 - exponent)
    if rounded:
        exponent = math.floor(math.log10(abs(rounded)))
    if exponent < -4 or exponent >= 9:
        return f"{number:.{digits - 1}e}"
    return f"{rounded:,.{max(0, digits - 1 - exponent)}f}"


def microseconds(value: object) -> str:
    """A time with the unit that suits it, from microseconds: ``850 ns``, ``12.3 µs``, ``1.09 ms``, ``2.50 s``."""
    number = _finite(value)
    if number is None:
        return NOTHING
    for limit, scale, unit in ((1, 1e3, "ns"), (1e3, 1, "µs"), (1e6, 1e-3, "ms")):
        if abs(number) < limit:
            return f"{significant(number * scale)} {unit}"
    return f"{significant(number * 1e-6)} s"


def seconds(value: object) -> str:
    """A duration from seconds: ``0.42 s``, ``12.3 s``, ``4 min 10 s``, ``3 h 05 min``."""
    number = _finite(value)
    if number is None:
        return NOTHING
    if number < 120:
        return f"{significant(number, 2 if number < 10 else 3)} s"
    if number < 7200:
        minutes, rest = divmod(round(number), 60)
        return f"{minutes} min {rest:02d} s"
    hours, rest = divmod(round(number / 60), 60)
    return f"{hours:,} h {rest:02d} min"


def score(value: object) -> str:
    """A SOL score, always with three decimals: 0.5 is the baseline, 1 the limit."""
    number = _finite(value)
    return NOTHING if number is None else f"{number:.3f}"


def times(value: object) -> str:
    """A ratio: ``1.38×``."""
    number = _finite(value)
    return NOTHING if number is None else f"{significant(number)}×"


def percent(value: object) -> str:
    """A share of one: ``63 %``."""
    number = _finite(value)
    if number is None:
        return NOTHING
    return f"{significant(number * 100, 2) if abs(number) < 0.1 else round(number * 100)} %"


def data_size(value: object) -> str:
    """Bytes with a decimal prefix: ``26.1 kB``, ``4.19 MB``."""
    number = _finite(value)
    if number is None:
        return NOTHING
    for limit, scale, unit in ((1e3, 1, "B"), (1e6, 1e-3, "kB"), (1e9, 1e-6, "MB"), (1e12, 1e-9, "GB")):
        if abs(number) < limit:
            return f"{number:.0f} B" if unit == "B" else f"{significant(number * scale)} {unit}"
    return f"{significant(number * 1e-12)} TB"


def engineering(value: object, unit: str) -> str:
    """A large quantity with a prefix: ``1.81 PFLOP/s``."""
    number = _finite(value)
    if number is None:
        return NOTHING
    for limit, scale, prefix in ((1e3, 1, ""), (1e6, 1e-3, "k"), (1e9, 1e-6, "M"), (1e12, 1e-9, "G"),
                                 (1e15, 1e-12, "T")):
        if abs(number) < limit:
            return f"{significant(number * scale)} {prefix}{unit}"
    return f"{significant(number * 1e-15)} P{unit}"


def axes(values: object, *, limit: int = 120) -> str:
    """Axis values of a workload: ``batch=1, seq=4096``."""
    if not isinstance(values, dict):
        return ""
    text = ", ".join(f"{name}={value}" for name, value in values.items())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def counted(number: int, noun: str) -> str:
    """``1 attempt``, ``2 attempts``, ``1,200 attempts``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
