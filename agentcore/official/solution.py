"""The model of a ``solution.json``: fields as SOL-ExecBench and FlashInfer-Bench define them, checked as hostile input.

The two dialects differ in ``spec``: SOL-ExecBench has a list ``languages`` and ``compile_options``, and its C++ binding
is torch's unless said otherwise; FlashInfer-Bench has one ``language``, and there it is tvm-ffi. A file may carry both
fields; then ``languages`` counts. Pure data: nothing here reads files or imports torch.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from agentcore.official.flags import compiler_flag_faults, linker_flag_faults
from agentcore.paths import MAX_FILE_BYTES, MAX_FILES, MAX_TOTAL_BYTES, clashes, path_fault, shown
from agentcore.vocabulary import Language

CPP_SUFFIXES = (".cpp", ".cc", ".cxx", ".c")
CUDA_SUFFIXES = (".cu",)
_HEADER_SUFFIXES = (".h", ".hpp", ".cuh")


class OfficialLanguage(StrEnum):
    """What ``spec.languages`` may hold. The first group is Python, the second C++ behind a binding."""

    PYTORCH = "pytorch"
    PYTHON = "python"
    TRITON = "triton"
    CUTE_DSL = "cute_dsl"
    CUTILE = "cutile"
    CUDNN_FRONTEND = "cudnn_frontend"
    TILELANG = "tilelang"

    CUDA_CPP = "cuda_cpp"
    CUDA = "cuda"
    CUTLASS = "cutlass"
    CUDNN = "cudnn"
    CUBLAS = "cublas"
    CPP = "cpp"

    @property
    def is_cpp(self) -> bool:
        return self in _CPP


_CPP = frozenset({
    OfficialLanguage.CUDA_CPP, OfficialLanguage.CUDA, OfficialLanguage.CUTLASS, OfficialLanguage.CUDNN,
    OfficialLanguage.CUBLAS, OfficialLanguage.CPP,
})

MODULES = {
    OfficialLanguage.TRITON: "triton",
    OfficialLanguage.CUTE_DSL: "cutlass",
    OfficialLanguage.CUTILE: "cuda.tile",
    OfficialLanguage.CUDNN_FRONTEND: "cudnn",
    OfficialLanguage.TILELANG: "tilelang",
}
"""What a Python language imports, where that is more than torch."""


def _null_is(default: Any) -> BeforeValidator:
    return BeforeValidator(lambda value: default if value is None else value)


Text = Annotated[str, Field(min_length=1, max_length=200)]


class Part(BaseModel):
    """Unknown fields are ignored, so that a file with another harness's extras still loads."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Source(Part):
    """One file. ``path`` is relative, plain and portable; ``content`` is its whole text."""

    path: str
    content: str

    @field_validator("path")
    @classmethod
    def _plain_path(cls, value: str) -> str:
        if fault := path_fault(value, suffixes=None):
            raise ValueError(f"{shown(value)}: {fault}")
        return value

    @field_validator("content")
    @classmethod
    def _bounded_text(cls, value: str) -> str:
        if len(value) > MAX_FILE_BYTES or len(encoded(value)) > MAX_FILE_BYTES:
            raise ValueError(f"is larger than {MAX_FILE_BYTES >> 20} MiB")
        return value

    @property
    def suffix(self) -> str:
        return PurePosixPath(self.path).suffix


Flag = Annotated[str, Field(min_length=1, max_length=500)]
Flags = Annotated[tuple[Flag, ...], Field(max_length=64), _null_is(())]


class CompileOptions(Part):
    """Flags for the host compiler, nvcc and the linker, each from a list of those that only shape the code."""

    cflags: Flags = ()
    cuda_cflags: Flags = ("-O3", "--use_fast_math")
    ld_flags: Flags = ("-lcuda",)

    @field_validator("cflags", "cuda_cflags")
    @classmethod
    def _known_flags(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        words = _words(value)
        return _refuse(words, compiler_flag_faults(words))

    @field_validator("ld_flags")
    @classmethod
    def _known_libraries(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        words = _words(value)
        return _refuse(words, linker_flag_faults(words))


def _refuse(words: tuple[str, ...], faults: list[str]) -> tuple[str, ...]:
    if faults:
        raise ValueError("; ".join(faults[:3]))
    return words


def _words(flags: tuple[str, ...]) -> tuple[str, ...]:
    """One flag may hold several words, which the official build leaves to a shell."""
    return tuple(word for flag in flags for word in shlex.split(flag))


class Spec(Part):
    """How the sources are built and called."""

    languages: Annotated[tuple[OfficialLanguage, ...], Field(min_length=1, max_length=8)]
    target_hardware: Annotated[tuple[Text, ...], Field(min_length=1, max_length=32)]
    entry_point: Annotated[str, Field(max_length=600)]
    dependencies: Annotated[tuple[Text, ...], Field(max_length=64), _null_is(())] = ()
    destination_passing_style: Annotated[bool, _null_is(True)] = True
    binding: str | None = None
    compile_options: CompileOptions | None = None

    @model_validator(mode="before")
    @classmethod
    def _both_dialects(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        flashinfer = data.get("languages") is None
        if flashinfer and isinstance(data.get("language"), str):
            data = data | {"languages": [data["language"]]}
        languages = data.get("languages")
        if not (isinstance(languages, list | tuple) and any(name in list(_CPP) for name in languages)):
            return data | {"binding": None}  # both dialects ignore it for Python
        return data | {"binding": data.get("binding") or ("tvm-ffi" if flashinfer else "torch")}

    @field_validator("languages")
    @classmethod
    def _one_kind(cls, value: tuple[OfficialLanguage, ...]) -> tuple[OfficialLanguage, ...]:
        if len({language.is_cpp for language in value}) > 1:
            raise ValueError(f"mixes C++ and Python: {', '.join(value)}")
        return value

    @field_validator("entry_point")
    @classmethod
    def _file_and_function(cls, value: str, info: ValidationInfo) -> str:
        path, separator, function = value.partition("::")
        if not separator or not path or not re.fullmatch(r"[A-Za-z_]\w*", function, re.ASCII):
            raise ValueError(f"{shown(value)} is not 'file::function'")
        for language in info.data.get("languages", ())[:1]:
            allowed = (*CUDA_SUFFIXES, *CPP_SUFFIXES, *_HEADER_SUFFIXES) if language.is_cpp else (".py",)
            if PurePosixPath(path).suffix not in allowed:
                raise ValueError(f"{shown(path)}: a {language} solution starts in {' or '.join(allowed)}")
        return value

    @field_validator("binding")
    @classmethod
    def _torch_alone(cls, value: str | None) -> str | None:
        if value not in (None, "torch"):
            meant = ", which no binding beside a single 'language' means," if value == "tvm-ffi" else ""
            raise ValueError(
                f"{value[:60]!r}{meant} is not supported here; bind the entry point with torch (PYBIND11_MODULE) and"
                ' say "binding": "torch"'
            )
        return value

    @property
    def is_cpp(self) -> bool:
        return self.languages[0].is_cpp

    @property
    def entry_file(self) -> str:
        return self.entry_point.partition("::")[0]

    @property
    def entry_function(self) -> str:
        return self.entry_point.partition("::")[2]


class OfficialSolution(Part):
    """One ``solution.json``."""

    name: Text
    definition: Text
    author: Text
    description: Annotated[str, Field(max_length=20_000), _null_is("")] = ""
    spec: Spec
    sources: Annotated[tuple[Source, ...], Field(min_length=1, max_length=MAX_FILES)]

    @field_validator("sources")
    @classmethod
    def _whole_tree(cls, value: tuple[Source, ...], info: ValidationInfo) -> tuple[Source, ...]:
        paths = [source.path for source in value]
        for path in paths:
            if paths.count(path) > 1:
                raise ValueError(f"{shown(path)} is there twice")
            if any(str(parent) in paths for parent in PurePosixPath(path).parents):
                raise ValueError(f"{shown(path)} lies below another of the files")
        if pairs := clashes(paths):
            raise ValueError(f"{shown(pairs[0][0])} and {shown(pairs[0][1])} differ only in case")
        if sum(len(encoded(source.content)) for source in value) > MAX_TOTAL_BYTES:
            raise ValueError(f"more than {MAX_TOTAL_BYTES >> 20} MiB together")
        spec: Spec | None = info.data.get("spec")
        if spec is None:
            return value
        if spec.entry_file not in paths:
            raise ValueError(f"spec.entry_point names {shown(spec.entry_file)}, which is not among them")
        if spec.is_cpp and not any(source.suffix in (*CUDA_SUFFIXES, *CPP_SUFFIXES) for source in value):
            raise ValueError(f"nothing to compile ({', '.join((*CUDA_SUFFIXES, *CPP_SUFFIXES))})")
        return value

    @property
    def language(self) -> Language:
        """Ours for theirs: what the kernel is written in, libraries counted as what calls them."""
        languages = set(self.spec.languages)
        if self.spec.is_cpp:
            return Language.CPP if languages == {OfficialLanguage.CPP} else Language.CUDA
        if OfficialLanguage.CUTE_DSL in languages:
            return Language.CUTE
        return Language.TRITON if OfficialLanguage.TRITON in languages else Language.TORCH

    @property
    def interface(self) -> str:
        """How it is called, for the record."""
        how = "outputs last" if self.spec.destination_passing_style else "outputs returned"
        return f"solution.json: {'torch binding' if self.spec.is_cpp else 'Python'}, {how}"

    @property
    def files(self) -> dict[str, bytes]:
        """The sources by path."""
        return {source.path: encoded(source.content) for source in self.sources}

    @property
    def compiled_sources(self) -> tuple[str, ...]:
        """The paths that are handed to a compiler, in order; the others are there to be included."""
        return tuple(s.path for s in self.sources if s.suffix in (*CUDA_SUFFIXES, *CPP_SUFFIXES))

    @property
    def digest(self) -> str:
        """SHA-256 over everything that decides how it runs."""
        content = [self.definition, self.spec.model_dump(mode="json"), [[s.path, s.content] for s in self.sources]]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def encoded(text: str) -> bytes:
    """The text as UTF-8. Raises ValueError for what no file can hold (half a surrogate pair)."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"holds half a character (an unpaired surrogate) at {error.start}") from None
