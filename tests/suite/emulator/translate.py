"""Turn a kernel of the suite from CUDA C++ into C++ for ``emulator.h``. Knows the suite's style, not all of CUDA."""

from __future__ import annotations

import re

_LAUNCH = re.compile(r"(?P<kernel>\w+(?:<[\w\s,]+>)?)\s*<<<(?P<config>[^;]*?)>>>\s*\((?P<arguments>[^;]*)\);", re.S)
_CLUSTERED = re.compile(
    r"__cluster_dims__\((?P<shape>[^)]*)\)(?:\s*__launch_bounds__\([^)]*\))?\s*(?P<kernel>\w+)\s*\("
)
_FUNCTION = re.compile(r"^(?:template <[^>]*>\n)?(?:__device__|static|inline) [^;{}]*?\{", re.M)
_DYNAMIC = re.compile(r"extern __shared__ __align__\(\d+\) unsigned char (\w+)\[\];")


def to_emulator(source: str) -> str:
    """The source with launches as calls of the emulator, and without the functions made of PTX, which it provides."""
    shapes = {match["kernel"]: match["shape"] for match in _CLUSTERED.finditer(source)}

    def launch(match: re.Match[str]) -> str:
        grid, block, *_ = _arguments(match["config"])
        shape = shapes.get(match["kernel"].split("<")[0], "1, 1, 1")
        call = f"{match['kernel']}({match['arguments']});"
        return f"emulator::launch(dim3({grid}), dim3({block}), dim3({shape}), [&] {{ {call} }});"

    source = _without_assembly(_LAUNCH.sub(launch, source))
    return _DYNAMIC.sub(r"unsigned char* const \1 = reinterpret_cast<unsigned char*>(emulator::marker);", source)


def _arguments(text: str) -> list[str]:
    """Split at the commas outside any bracket."""
    parts, depth, start = [], 0, 0
    for position, character in enumerate(text):
        depth += (character in "(<[{") - (character in ")>]}")
        if character == "," and depth == 0:
            parts.append(text[start:position].strip())
            start = position + 1
    return [*parts, text[start:].strip()]


def _without_assembly(source: str) -> str:
    kept, position = [], 0
    for match in _FUNCTION.finditer(source):
        if match.start() < position:
            continue
        end, depth = match.end(), 1
        while depth:
            depth += {"{": 1, "}": -1}.get(source[end], 0)
            end += 1
        if re.search(r"\basm\b", source[match.start() : end]):
            kept.append(source[position : match.start()])
            position = end
    return "".join([*kept, source[position:]])
