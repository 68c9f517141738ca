"""The ``kernel.py`` of each kind of baseline, in destination-passing style: ``run(*inputs, *outputs)``."""

from __future__ import annotations

import keyword

from agentcore.baselines.kinds import BaselineKind
from agentcore.problems import Problem


class NoBaseline(Exception):
    """A problem has no baseline of this kind; the message says why and what would give it one."""


def baseline_source(problem: Problem, kind: BaselineKind) -> bytes:
    """The source of ``problem``'s baseline of ``kind``. Raises NoBaseline."""
    names = list(problem.definition.inputs), list(problem.definition.outputs)
    if kind is BaselineKind.EAGER:
        return eager_source(problem.name, problem.reference, *names).encode()
    if kind is BaselineKind.COMPILE:
        return compiled_source(problem.name, problem.reference, *names).encode()
    if kind is BaselineKind.AGENT:
        raise NoBaseline(
            "empty: an attempt in PyTorch that passed becomes it by manage.py baselines --kind agent --adopt COMMIT "
            f"(branch attempts/{problem.name}/torch/baseline/{kind.slug})"
        )
    file = problem.root / kind.file
    if not file.is_file():
        raise NoBaseline(f"there is no {kind.file} beside the problem")
    return file.read_bytes()


def eager_source(problem_name: str, reference: str, inputs: list[str], outputs: list[str]) -> str:
    """The problem's reference, unchanged, and a ``run`` that copies what it returns into the outputs."""
    parameters, call, copies = _interface(inputs, outputs)
    return (
        f"# The reference of {problem_name}, run as it is: the eager baseline.\n\n"
        f"{reference.rstrip()}\n\n\n"
        f"_reference = run\n\n\n"
        f"def run({parameters}):\n"
        f"    results = _reference({call})\n"
        f"{_unpacked(outputs)}"
        f"{copies}\n"
    )


def compiled_source(problem_name: str, reference: str, inputs: list[str], outputs: list[str]) -> str:
    """The reference under torch.compile, together with the copies into the outputs, which it can then fuse."""
    parameters, call, copies = _interface(inputs, outputs)
    return (
        f"# The reference of {problem_name} under torch.compile: compiled for each shape in its first call.\n\n"
        f"{reference.rstrip()}\n\n\n"
        f"import torch as _torch\n"
        f"import torch._dynamo.config as _dynamo\n"
        f"import torch._inductor.config as _inductor\n\n"
        f"{_SETTINGS}\n"
        f"_reference = run\n\n\n"
        f"def _into_outputs({parameters}):\n"
        f"    results = _reference({call})\n"
        f"{_unpacked(outputs)}"
        f"{copies}\n\n\n"
        f"{_COMPILED}"
    )


_SETTINGS = '''\
# Every shape gets a program of its own; beyond the limit torch would fall back to running eagerly, and not say so.
for _limit in ("recompile_limit", "cache_size_limit", "accumulated_recompile_limit", "accumulated_cache_size_limit"):
    if hasattr(_dynamo, _limit):
        setattr(_dynamo, _limit, 4096)
# A pool of compiler processes would still be running beside the calls that are timed.
_inductor.compile_threads = 1
# The compiled header takes more than a sandboxed program may write into one file.
if hasattr(_inductor, "cpp_cache_precompile_headers"):
    _inductor.cpp_cache_precompile_headers = False
'''

_COMPILED = '''\
# Without CUDA graphs: launching is not timed, and a graph would copy the inputs to memory of its own first.
_compiled = _torch.compile(_into_outputs, mode="max-autotune-no-cudagraphs", dynamic=False)


def run(*arguments):
    try:
        _compiled(*arguments)
    except Exception as error:
        if type(error).__module__.partition(".")[0] != "torch":
            raise
        lines = str(error).strip().splitlines()
        said = [line.strip() for line in lines if "error" in line.lower()] or lines
        raise RuntimeError("torch.compile failed: " + " | ".join(said[-6:])[-1500:]) from error
'''


_OWN_NAMES = ("results", "_reference", "isinstance", "dict", "tuple", "list")
"""What the functions below use for something else."""


def _interface(inputs: list[str], outputs: list[str]) -> tuple[str, str, str]:
    """The parameters of ``run``, the arguments of the reference, and a line per output that copies its result."""
    used = {*keyword.kwlist, *_OWN_NAMES}
    ours, results = ([_unused(name, used) for name in names] for names in (inputs, outputs))
    copies = "\n".join(f"    {name}.copy_(results[{index}])" for index, name in enumerate(results))
    return ", ".join([*ours, *results]), ", ".join(ours), copies


def _unused(name: str, used: set[str]) -> str:
    """``name``, or with ``_`` after it where that is taken: the calls are positional, so it need only be a name."""
    while name in used:
        name += "_"
    used.add(name)
    return name


def _unpacked(outputs: list[str]) -> str:
    """Statements that turn whatever a reference returns into a list in the order of the outputs."""
    return (
        f"    if isinstance(results, dict):\n"
        f"        results = [results[name] for name in {outputs!r}]\n"
        f"    elif not isinstance(results, (tuple, list)):\n"
        f"        results = [results]\n"
    )
