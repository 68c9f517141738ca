"""Inputs and reference outputs as torch tensors. For the judge and the bounds; needs torch.

A problem's files are the operator's, so its reference and generator run in this process. Candidates never do.
"""

from __future__ import annotations

import linecache
import random
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from agentcore.problems.blobs import find_blob
from agentcore.problems.content import RandomContent, draw_seed, torch_dtype
from agentcore.problems.definition import TensorSpec
from agentcore.problems.errors import ProblemError
from agentcore.problems.problem import Problem
from agentcore.problems.workload import CustomInput, RandomInput, SafetensorsInput, ScalarInput, Workload

__all__ = ["InputFactory", "Value", "input_specs", "output_specs", "torch_dtype"]

Value = torch.Tensor | int | float | bool

_KEPT_PLANS = 512


def output_specs(problem: Problem, workload: Workload) -> dict[str, tuple[tuple[int, ...], torch.dtype]]:
    """Shape and dtype of each output of ``workload``, in the definition's order."""
    definition = problem.definition
    values = definition.axis_values(workload.axes)
    return {n: (definition.shape(s, values) or (), torch_dtype(s.dtype)) for n, s in definition.outputs.items()}


def input_specs(problem: Problem, workload: Workload) -> dict[str, tuple[tuple[int, ...] | None, torch.dtype]]:
    """Shape (None for a Python scalar) and dtype of each input of ``workload``, in the definition's order."""
    definition = problem.definition
    values = definition.axis_values(workload.axes)
    return {n: (definition.shape(s, values), torch_dtype(s.dtype)) for n, s in definition.inputs.items()}


class InputFactory:
    """Makes a problem's inputs on one device and runs its reference there. Compiles the source once.

    Not thread-safe: custom generators draw from the process-wide random state, which :meth:`make` seeds.
    """

    def __init__(self, problem: Problem, device: str | torch.device) -> None:
        """Raises ProblemError where the reference source cannot be executed.

        A factory for ``meta`` makes inputs under a mode that computes no floats (``agentcore.bounds.count``); the
        generator it is given lives on the CPU.
        """
        self.problem = problem
        self.device = torch.device(device)
        self._module = _load_source(problem)
        self._run: Callable[..., Any] = self._module.run
        entry = problem.definition.custom_inputs_entrypoint
        self._custom: Callable[..., Any] | None = getattr(self._module, entry) if entry else None
        self._plans: dict[str, _Plan] = {}
        self._own_generator: torch.Generator | None = None

    def make(self, workload: Workload, generator: torch.Generator) -> dict[str, Value]:
        """Fresh inputs in the definition's order: contiguous tensors on the device, scalars as Python numbers.

        The content is a function of ``generator``'s state, which advances. ``generator`` may live on another device
        (a CPU one avoids a device synchronisation for custom and CPU content). Raises ProblemError where a custom
        generator fails or gives another shape or dtype than the definition, or a safetensors file is absent.
        """
        plan = self._plan(workload)
        if generator.device.type == self.device.type or self.device.type == "meta":
            local = generator
        else:
            local = self._own_generator or torch.Generator(self.device)
            self._own_generator = local
            local.manual_seed(draw_seed(generator))
        custom = self._make_custom(workload, plan, generator) if plan.has_custom else {}
        made: dict[str, Value] = {}
        for name, spec in self.problem.definition.inputs.items():
            source = plan.sources[name]
            if source is None:
                made[name] = self._conform(workload, name, spec, plan.shapes[name], custom.get(name))
            elif callable(source):
                made[name] = _as_scalar(source(local)) if spec.is_scalar else source(local)
            else:
                made[name] = source.clone() if isinstance(source, torch.Tensor) else source
        return made

    def reference(self, inputs: Mapping[str, Value], workload: Workload | None = None) -> dict[str, torch.Tensor]:
        """The reference outputs for ``inputs``, by name, contiguous. ``workload`` has their shapes checked as well.

        Floating outputs are converted to the definition's dtype, which is what a kernel writes; so are Python numbers.
        Raises ProblemError where ``run`` returns another number of outputs, shape or kind than the definition says.
        Errors raised by the reference itself (out of memory, for one) pass through.
        """
        definition = self.problem.definition
        returned = self.run_raw(inputs)
        if isinstance(returned, Mapping):
            results = [returned.get(name) for name in definition.outputs]
        elif isinstance(returned, tuple | list):
            results = list(returned)
        else:
            results = [returned]
        if len(results) != len(definition.outputs):
            raise self._error(f"run() returned {len(results)} outputs; the definition has {len(definition.outputs)}")
        outputs: dict[str, torch.Tensor] = {}
        for (name, spec), result in zip(definition.outputs.items(), results, strict=True):
            wanted = torch_dtype(spec.dtype)
            if isinstance(result, bool | int | float) and spec.shape == ():
                result = torch.tensor(result, device=self.device)
            if not isinstance(result, torch.Tensor):
                raise self._error(f"run() gave {type(result).__name__} for output {name!r}; expected a tensor")
            converted = _converted(result, wanted)
            if converted is None:
                raise self._error(f"run() gave {result.dtype} for output {name!r}; the definition says {spec.dtype}")
            result = converted
            shape = self._plan(workload).outputs[name][0] if workload else tuple(result.shape)
            if tuple(result.shape) != shape:
                raise self._error(f"run() gave shape {tuple(result.shape)} for output {name!r}; expected {shape}")
            outputs[name] = result.contiguous()
        return outputs

    def run_raw(self, inputs: Mapping[str, Value]) -> Any:
        """Whatever the reference's ``run`` returns for ``inputs``, unchecked."""
        with torch.no_grad():
            return self._run(*(inputs[name] for name in self.problem.definition.inputs))

    def _error(self, message: str) -> ProblemError:
        return ProblemError(f"{self.problem.root}: reference: {message}")

    def _plan(self, workload: Workload) -> _Plan:
        plan = self._plans.get(workload.uuid)
        if plan is None or plan.workload is not workload:
            if len(self._plans) >= _KEPT_PLANS:
                self._plans.clear()
            plan = self._plans[workload.uuid] = _Plan(self.problem, workload, self.device)
        return plan

    def _make_custom(self, workload: Workload, plan: _Plan, generator: torch.Generator) -> Mapping[str, Any]:
        assert self._custom is not None
        seed = draw_seed(generator)
        _seed_torch(seed, self.device)
        random.seed(seed)
        np.random.seed(seed % (1 << 32))  # the legacy state is what published generators use
        with torch.no_grad():
            device = torch.device("cpu") if self.device.type == "meta" else self.device
            made = self._custom(dict(plan.axes_and_scalars), device)
        if not isinstance(made, Mapping):
            raise self._error(
                f"{self._custom.__name__}() returned {type(made).__name__}; expected a dict of inputs by name"
            )
        return made

    def _conform(
        self, workload: Workload, name: str, spec: TensorSpec, shape: tuple[int, ...] | None, value: Any
    ) -> Value:
        entry = self.problem.definition.custom_inputs_entrypoint
        if value is None:
            raise self._error(f"{entry}() made no {name!r}, which workload {workload.uuid} says is custom")
        if shape is None:
            return _as_scalar(value)
        if not isinstance(value, torch.Tensor):
            value = torch.tensor(value, dtype=torch_dtype(spec.dtype))
        converted = _converted(value, torch_dtype(spec.dtype), exactly=True)
        if tuple(value.shape) != shape or converted is None:
            raise self._error(
                f"{entry}() made {name!r} as {value.dtype} {tuple(value.shape)} for workload {workload.uuid};"
                f" the definition says {spec.dtype} {shape}"
            )
        tensor: torch.Tensor = converted.detach().to(self.device).contiguous()
        return tensor


class _Plan:
    """What :meth:`InputFactory.make` needs to know of one workload, worked out once."""

    def __init__(self, problem: Problem, workload: Workload, device: torch.device) -> None:
        definition = problem.definition
        self.workload = workload
        self.axes = definition.axis_values(workload.axes)
        self.outputs = output_specs(problem, workload)
        self.shapes = {name: definition.shape(spec, self.axes) for name, spec in definition.inputs.items()}
        # A generator may ask for what the workload sets beyond the definition's axes.
        self.axes_and_scalars: dict[str, Any] = {**workload.axes, **self.axes}
        # Per input: a maker, a fixed value, or None for the custom generator's part.
        self.sources: dict[str, Callable[[torch.Generator], torch.Tensor] | Value | None] = {}
        makers = RandomContent(definition, self.axes, device)
        for name, spec in definition.inputs.items():
            match workload.inputs[name]:
                case RandomInput() as source:
                    self.sources[name] = makers.maker(name, spec, source)
                case ScalarInput(value=value):
                    number: int | float = float(value) if spec.is_floating else value
                    self.axes_and_scalars[name] = number
                    self.sources[name] = (
                        number if spec.is_scalar
                        else torch.full(self.shapes[name] or (), number, dtype=torch_dtype(spec.dtype), device=device)
                    )
                case SafetensorsInput(path=path, tensor_key=key):
                    self.sources[name] = _read_blob(problem, workload, name, path, key).to(device)
                case CustomInput():
                    self.sources[name] = None
        self.has_custom = any(source is None for source in self.sources.values())


def _seed_torch(seed: int, device: torch.device) -> None:
    """What torch.manual_seed does for the CPU and ``device``, without its visit to every other backend (0.3 ms)."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        index = torch.cuda.current_device() if device.index is None else device.index
        torch.cuda.default_generators[index].manual_seed(seed)


def _read_blob(problem: Problem, workload: Workload, name: str, path: str, key: str) -> torch.Tensor:
    from safetensors import SafetensorError, safe_open

    where = f"{problem.root}: workload {workload.uuid}: inputs.{name}"
    file = find_blob(problem.root, path)
    if file is None:
        raise ProblemError(f"{where}: {path} is absent; fetch the problem's safetensors files to run this workload")
    try:
        with safe_open(str(file), framework="pt") as blob:
            if key not in blob.keys():  # noqa: SIM118  not a mapping
                held = ", ".join(sorted(blob.keys())[:8])
                raise ProblemError(f"{where}: {path} holds no tensor {key!r}; it has {held or 'none'}")
            tensor: torch.Tensor = blob.get_tensor(key)
    except (SafetensorError, OSError) as error:
        raise ProblemError(f"{where}: {path} cannot be read: {error}") from None
    spec = problem.definition.inputs[name]
    shape = problem.definition.shape(spec, problem.definition.axis_values(workload.axes))
    if tuple(tensor.shape) != shape or tensor.dtype != torch_dtype(spec.dtype):
        raise ProblemError(
            f"{where}: {path} holds {tensor.dtype} {tuple(tensor.shape)}; the definition says {spec.dtype} {shape}"
        )
    return tensor.contiguous()


def _converted(tensor: torch.Tensor, wanted: torch.dtype, *, exactly: bool = False) -> torch.Tensor | None:
    """``tensor`` as ``wanted`` where both are floats, or both integers and nothing is lost; else None.

    ``exactly`` takes integers and bools as any dtype that holds their values.
    """
    if tensor.dtype == wanted:
        return tensor
    if tensor.dtype.is_floating_point and wanted.is_floating_point:
        return tensor.to(wanted)
    mixed = wanted.is_floating_point or torch.bool in (tensor.dtype, wanted)
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex or (mixed and not exactly):
        return None
    narrowed = tensor.to(wanted)
    return narrowed if bool((narrowed.to(tensor.dtype) == tensor).all()) else None


def _as_scalar(value: Any) -> int | float | bool:
    number: int | float | bool = value.item() if isinstance(value, torch.Tensor | np.generic) else value
    return number


def _load_source(problem: Problem) -> types.ModuleType:
    """Execute the reference source as a module of its own, once."""
    name = f"kernelyard_reference_{problem.digest[:16]}"
    file = f"<reference of {problem.name}>"
    module = types.ModuleType(name)
    module.__file__ = file
    # Tracebacks show the source, and dataclasses or torch.library inside it find their module.
    linecache.cache[file] = (len(problem.reference), None, problem.reference.splitlines(keepends=True), file)
    sys.modules[name] = module
    try:
        exec(compile(problem.reference, file, "exec"), module.__dict__)  # noqa: S102  the operator's own file
    except Exception as error:
        sys.modules.pop(name, None)
        raise ProblemError(f"{problem.root}: reference: cannot be executed: {type(error).__name__}: {error}") from error
    return module
