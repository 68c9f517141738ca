"""The C interface of a problem: ``problem.h`` for the kernel's author and the generated entry the runner calls.

Pure text from a definition. Not for compiling; importing this never imports torch.

``kernel_launch`` takes, in this order: the inputs, the outputs, the variable axes, the expression axes (each in the
definition's order) and, in CUDA, the stream. ``ky_call`` takes an array of pointers in the same order: a tensor's is
its data, a scalar's points to a double (floating types) or an int64_t (integers and bool), an axis's to an int64_t.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path

from agentcore.problems import Definition, TensorSpec
from agentcore.vocabulary import Language

ABI_VERSION = 1

_CPP_TYPES = {
    "bool": "bool",
    "uint8": "uint8_t",
    "int8": "int8_t",
    "int16": "int16_t",
    "int32": "int32_t",
    "int64": "int64_t",
    "float16": "_Float16",
    "bfloat16": "ky::bf16",
    "float32": "float",
    "float64": "double",
    "float8_e4m3fn": "uint8_t",
    "float8_e5m2": "uint8_t",
    "float8_e8m0fnu": "uint8_t",
    "float4_e2m1fn_x2": "uint8_t",
}
_CUDA_TYPES = _CPP_TYPES | {
    "float16": "__half",
    "bfloat16": "__nv_bfloat16",
    "float8_e4m3fn": "__nv_fp8_e4m3",
    "float8_e5m2": "__nv_fp8_e5m2",
}
_CUDA_HEADERS = {
    "__half": "cuda_fp16.h", "__nv_bfloat16": "cuda_bf16.h",
    "__nv_fp8_e4m3": "cuda_fp8.h", "__nv_fp8_e5m2": "cuda_fp8.h",
}
# Scalars travel as double or int64_t and arrive as the nearest type a C caller would expect.
_SCALAR_TYPES = {"bool": "bool", "int32": "int32_t", "float64": "double"}

# C++ keywords, and names that the standard headers or the entry use for something else.
_RESERVED = frozenset(
    {
        "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break", "case",
        "catch", "char", "char8_t", "char16_t", "char32_t", "class", "compl", "concept", "const", "consteval",
        "constexpr", "constinit", "const_cast", "continue", "co_await", "co_return", "co_yield", "decltype",
        "default", "delete", "do", "double", "dynamic_cast", "else", "enum", "explicit", "export", "extern",
        "false", "float", "for", "friend", "goto", "if", "inline", "int", "long", "mutable", "namespace", "new",
        "noexcept", "not", "not_eq", "nullptr", "operator", "or", "or_eq", "private", "protected", "public",
        "register", "reinterpret_cast", "requires", "return", "short", "signed", "sizeof", "static",
        "static_assert", "static_cast", "struct", "switch", "template", "this", "thread_local", "throw", "true",
        "try", "typedef", "typeid", "typename", "union", "unsigned", "using", "virtual", "void", "volatile",
        "wchar_t", "while", "xor", "xor_eq", "restrict", "typeof", "stream", "args", "ky", "main", "errno",
        "stdin", "stdout", "stderr", "NULL", "EOF", "assert",
    }
)


class Kind(Enum):
    """What a parameter is, and so how its pointer in ``ky_call`` is read."""

    INPUT = "input"
    SCALAR = "scalar"
    OUTPUT = "output"
    AXIS = "axis"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of ``kernel_launch``: ``name`` in the definition, ``identifier`` in C."""

    name: str
    identifier: str
    kind: Kind
    c_type: str
    note: str

    @property
    def declaration(self) -> str:
        return f"{self.c_type} {self.identifier}"

    @property
    def is_floating(self) -> bool:
        return self.c_type in ("float", "double")


def parameters(definition: Definition, language: Language) -> tuple[Parameter, ...]:
    """The parameters of ``kernel_launch`` in order, without the stream. Raises ValueError for a language without C."""
    if not language.is_compiled:
        raise ValueError(f"{language} kernels have no C interface; only {Language.CUDA} and {Language.CPP} have")
    types = _CUDA_TYPES if language is Language.CUDA else _CPP_TYPES
    used = set(_RESERVED)
    found: list[Parameter] = []

    def add(name: str, kind: Kind, c_type: str, note: str) -> None:
        identifier = name
        while identifier in used:
            identifier += "_"
        used.add(identifier)
        found.append(Parameter(name, identifier, kind, c_type, note))

    for name, spec in definition.inputs.items():
        if spec.is_scalar:
            c_type = _SCALAR_TYPES.get(spec.dtype, "float" if spec.is_floating else "int64_t")
            add(name, Kind.SCALAR, c_type, "scalar")
        else:
            add(name, Kind.INPUT, f"const {types[spec.dtype]}*", _shape(spec))
    for name, spec in definition.outputs.items():
        add(name, Kind.OUTPUT, f"{types[spec.dtype]}*", _shape(spec))
    for name in definition.var_axes:
        add(name, Kind.AXIS, "int64_t", "axis")
    for name in definition.expr_axes:
        add(name, Kind.AXIS, "int64_t", f"axis = {_comment(getattr(definition.axes[name], 'expression', ''))}")
    return tuple(found)


def problem_header(definition: Definition, language: Language) -> str:
    """``problem.h``: types, constant axes as ``KY_<AXIS>`` macros, and the declaration of ``kernel_launch``."""
    found = parameters(definition, language)
    lines = [parameter.declaration for parameter in found]
    notes = [parameter.note for parameter in found]
    if language is Language.CUDA:
        lines.append("cudaStream_t stream")
        notes.append("all work goes here; do not synchronise")
    last = len(lines) - 1
    width = max(map(len, lines)) + 1
    declared = [
        f"    {line + ('' if index == last else ','):<{width}}  // {note}"
        for index, (line, note) in enumerate(zip(lines, notes, strict=True))
    ]
    constants = [f"#define KY_{name.upper()} {value}" for name, value in definition.const_axes.items()]
    prelude = _cuda_prelude(found) if language is Language.CUDA else _cpp_prelude()
    return "\n".join(
        [
            f"// The interface of {_comment(definition.name)} in {language}. Generated; changes are overwritten.",
            "#pragma once",
            "",
            prelude,
            *(["// Axes that never change.", *constants, ""] if constants else []),
            "// Tensors are dense and row-major. Inputs are mapped read-only; every element of every output must be",
            "// written on every call. Return 0, or any other number to report a failure.",
            'extern "C" int kernel_launch(',
            *declared,
            ");",
            "",
        ]
    )


def entry_source(definition: Definition, language: Language) -> str:
    """The source compiled beside the kernel: ``ky_call``, which spreads an array of pointers over ``kernel_launch``."""
    arguments = [_argument(index, parameter) for index, parameter in enumerate(parameters(definition, language))]
    if language is Language.CUDA:
        arguments.append("static_cast<cudaStream_t>(stream)")
    stream = "void* stream" if language is Language.CUDA else "void* /* stream */"
    joined = ",\n        ".join(arguments)
    return (
        '#include "problem.h"\n\n'
        f'extern "C" {{\n'
        f'__attribute__((visibility("default"))) extern const int ky_abi_version;\n'
        f"const int ky_abi_version = {ABI_VERSION};\n\n"
        f'__attribute__((visibility("default"))) int ky_call(void* const* args, {stream}) {{\n'
        f"    return kernel_launch(\n        {joined});\n}}\n"
        "}\n"
    )


def _argument(index: int, parameter: Parameter) -> str:
    if parameter.kind in (Kind.INPUT, Kind.OUTPUT):
        return f"static_cast<{parameter.c_type}>(args[{index}])"
    if parameter.kind is Kind.AXIS:
        return f"*static_cast<const int64_t*>(args[{index}])"
    if parameter.is_floating:
        return f"static_cast<{parameter.c_type}>(*static_cast<const double*>(args[{index}]))"
    return f"static_cast<{parameter.c_type}>(*static_cast<const int64_t*>(args[{index}]))"


def _shape(spec: TensorSpec) -> str:
    entries = ", ".join(_comment(str(entry)) for entry in spec.shape or ())
    return f"{spec.dtype} [{entries}]"


def _comment(text: str) -> str:
    """Text safe after ``//``: one line, and no backslash that would splice the next one into it."""
    return " ".join(text.split()).replace("\\", "/")


def _cuda_prelude(found: Iterable[Parameter]) -> str:
    """The types of these parameters. CUDA's headers are most of a small kernel's build, so only those needed are there,
    and none for the entry, which is host code and only passes pointers on.
    """
    types = sorted({name for parameter in found for name in _CUDA_HEADERS if name in parameter.c_type.split("*")[0]})
    return _text("prelude_cuda.h").format(
        includes="".join(f"#include <{header}>\n" for header in sorted({_CUDA_HEADERS[name] for name in types})),
        declarations="".join(f"struct {name};\n" for name in types),
    )


def _cpp_prelude() -> str:
    return _text("prelude_cpp.h")


@cache
def _text(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")
