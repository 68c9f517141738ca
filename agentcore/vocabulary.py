"""The words every part of Kernelyard shares: languages, hardware, verdicts, check names and the ref grammar.

Not for behaviour: only names, and the grammar of names that cross a process or repository border.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum


class Language(StrEnum):
    """What a kernel is written in. The value is also the directory name under ``kernels/<problem>/``."""

    CUDA = "cuda"
    CUTE = "cute"
    TRITON = "triton"
    TORCH = "torch"
    CPP = "cpp"

    @property
    def source_name(self) -> str:
        """The file a kernel of this language starts from."""
        return {"cuda": "kernel.cu", "cpp": "kernel.cpp"}.get(self.value, "kernel.py")

    @property
    def is_compiled(self) -> bool:
        """True where a compiler produces a shared object with a C entry point before anything runs."""
        return self in (Language.CUDA, Language.CPP)

    @property
    def compiles_anywhere(self) -> bool:
        """True where a kernel can be compiled for a device that is not there; others are compiled by running them."""
        return self.is_compiled or self is Language.CUTE


class HardwareName(StrEnum):
    """A class of device with one rate table."""

    B200 = "b200"
    H200 = "h200"
    H100 = "h100"
    CPU = "cpu"

    @property
    def is_gpu(self) -> bool:
        return self is not HardwareName.CPU

    @property
    def arch(self) -> str:
        """The nvcc architecture, or ``native`` for the host."""
        return {"b200": "sm_100a", "h200": "sm_90a", "h100": "sm_90a"}.get(self.value, "native")


class Verdict(StrEnum):
    """The outcome of an evaluation. Only ``passed`` carries a latency that counts, and only it can be merged."""

    PASSED = "passed"
    COMPILED = "compiled"  # built for a hardware that is not here: never run, never measured, nothing to merge
    CLEAN = "clean"        # looked at by sanitizers that found no error; says nothing about results or times
    FINDINGS = "findings"  # looked at by sanitizers that found errors
    COMPILE_ERROR = "compile_error"
    RUNTIME_ERROR = "runtime_error"
    TIMEOUT = "timeout"
    INCORRECT = "incorrect"
    REWARD_HACK = "reward_hack"
    FASTER_THAN_LIGHT = "faster_than_light"
    CLOCK_MISMATCH = "clock_mismatch"
    INFRA_ERROR = "infra_error"


class CheckName(StrEnum):
    """One named finding of an evaluation. A cheat is reported under the check that caught it."""

    COMPILES = "compiles"                    # the sandboxed compiler produced the entry point
    LOADS = "loads"                          # the runner loaded it and it answered the first call
    RUNS = "runs"                            # every call returned 0 and no device error followed
    IN_TIME = "in-time"                      # no call, load or build passed its limit
    INPUTS_INTACT = "inputs-intact"          # nothing wrote, or tried to write, a read-only input
    OUTPUTS_WRITTEN = "outputs-written"      # every output element was overwritten since it was poisoned
    GUARDS_INTACT = "guards-intact"          # no byte around an output changed
    MATCHES_REFERENCE = "matches-reference"  # outputs agree with the reference within the tolerance
    FRESH_EVERY_CALL = "fresh-every-call"    # results follow the inputs of this very call, not a cache
    COMPLETE_ON_TIME = "complete-on-time"    # all of a call's work was done when its done mark appeared
    CHANNEL_INTACT = "channel-intact"        # the runner spoke only the protocol, in turn, and stayed alive
    STEADY_WORK = "steady-work"              # calls cost the same one by one as in a batch, early and late
    CLOCK_AGREES = "clock-agrees"            # the runner's own clock agrees with the judge's
    BELOW_LIGHT_SPEED = "below-light-speed"  # no workload beat its bound
    SANDBOXED = "sandboxed"                  # build and run were confined, and nothing was left behind
    INFRASTRUCTURE = "infrastructure"        # host, device and problem files did their part
    QUIET_DEVICE = "quiet-device"            # the canary says the device ran undisturbed and unthrottled
    LANGUAGE_RULES = "language-rules"        # only what the language allows was used
    SANITIZERS_CLEAN = "sanitizers-clean"    # no sanitizer found an error (sanitize evaluations only)


class CheckStatus(StrEnum):
    PASS = "pass"  # noqa: S105  a word, not a password
    FAIL = "fail"
    SKIP = "skip"


class Change(StrEnum):
    """How one measurement stands to another, the noise of both included (see judge/compare.py)."""

    IMPROVED = "improved"
    UNPROVEN = "unproven"
    REGRESSED = "regressed"
    INCOMPARABLE = "incomparable"


NAME_PATTERN = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,98}[a-z0-9])?\Z")
"""Problem, agent and slug names: lower-case letters, digits, ``-`` and ``_``; at most 100 characters."""

ATTEMPT_REF_PREFIX = "refs/heads/attempts/"


@dataclass(frozen=True, slots=True)
class AttemptRef:
    """``refs/heads/attempts/<problem>/<language>/<agent>/<slug>``, parsed."""

    problem: str
    language: Language
    agent: str
    slug: str

    @property
    def ref(self) -> str:
        return f"{ATTEMPT_REF_PREFIX}{self.problem}/{self.language}/{self.agent}/{self.slug}"

    @property
    def branch(self) -> str:
        return self.ref.removeprefix("refs/heads/")

    @property
    def kernel_path(self) -> str:
        """The only directory a commit on this ref may change."""
        return f"kernels/{self.problem}/{self.language}"

    @classmethod
    def parse(cls, ref: str) -> AttemptRef:
        """Parse a full ref or a branch name. Raises ValueError naming the part at fault."""
        text = ref.removeprefix("refs/heads/")
        parts = text.split("/")
        if len(parts) != 5 or parts[0] != "attempts":
            raise ValueError(f"{ref!r} is not attempts/<problem>/<language>/<agent>/<slug>")
        _, problem, language, agent, slug = parts
        for what, value in (("problem", problem), ("agent", agent), ("slug", slug)):
            if not NAME_PATTERN.match(value):
                raise ValueError(
                    f"{what} {value!r} in {ref!r} must be lower-case letters, digits, '-' or '_' (at most 100)"
                )
        try:
            parsed = Language(language)
        except ValueError:
            known = ", ".join(member.value for member in Language)
            raise ValueError(f"language {language!r} in {ref!r} is none of: {known}") from None
        return cls(problem, parsed, agent, slug)
