"""The palette is readable: every text colour on every ground it is used on, light and dark (WCAG AA, 4.5 : 1)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.conf import settings

TEXT = ("ink", "ink-soft", "ink-faint", "link", "accent", "good", "bad", "warn", "hack", "idle", "busy")
GROUNDS = ("page", "surface", "sunken")
CODE = ("code-comment", "code-keyword", "code-type", "code-string", "code-number", "code-pre", "code-name")


def palette(file: str, dark: bool) -> dict[str, str]:
    text = (Path(settings.STATICFILES_DIRS[0]) / "pages" / file).read_text()
    light, _, rest = text.partition("@media (prefers-color-scheme: dark)")
    rest = rest[: rest.index("}\n}") if "}\n}" in rest else rest.index("} }")]
    return dict(re.findall(r"--([\w-]+):\s*(#[0-9a-f]{6})", rest if dark else light))


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_stands_out_from_every_ground(dark: bool) -> None:
    colours = palette("kernelyard.css", dark)
    poor = {
        (text, ground): round(contrast(colours[text], colours[ground]), 2)
        for text in TEXT for ground in GROUNDS if contrast(colours[text], colours[ground]) < 4.5
    }
    assert poor == {}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_code_stands_out_from_its_ground_and_from_diff_colours(dark: bool) -> None:
    colours, code = palette("kernelyard.css", dark), palette("code.css", dark)
    poor = {name: round(contrast(code[name], colours["sunken"]), 2) for name in CODE
            if contrast(code[name], colours["sunken"]) < 4.5}
    assert poor == {}
    for ground in ("added", "removed", "added-word", "removed-word"):
        assert contrast(colours["ink"], colours[ground]) > 4.5, ground
