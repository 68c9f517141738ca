"""Let a reference that runs on tensors without content believe that they are ordinary ones of one device."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from agentcore.bounds.trace import DataDependent, Trace

_CONTENT = frozenset([torch.Tensor.tolist, torch.Tensor.numpy, torch.Tensor.__array__])
_DEVICE = torch.Tensor.device.__get__
_IS_CUDA = torch.Tensor.is_cuda.__get__  # type: ignore[attr-defined]
_IS_META = torch.Tensor.is_meta.__get__  # type: ignore[attr-defined]
_MOVES = frozenset([torch.Tensor.cuda, torch.Tensor.cpu])


class Pretend(TorchFunctionMode):
    """Tensors say they are on ``device``, and all devices that the reference names are the one of the trace."""

    def __init__(self, trace: Trace, device: str) -> None:
        super().__init__()
        self._trace = trace
        self._device = torch.device(device)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        if func is _DEVICE:
            return self._device
        if func is _IS_CUDA:
            return self._device.type == "cuda"
        if func is _IS_META:
            return False
        if func in _MOVES:
            return args[0]
        if func in _CONTENT:
            known = self._trace.content(args[0])
            if known is None:
                raise DataDependent("it reads computed content back as Python numbers")
            return func(known, *args[1:], **kwargs)
        if kwargs.get("device") is not None:
            kwargs = {**kwargs, "device": "cpu"}
        if func is torch.Tensor.to:
            args = tuple("cpu" if _is_device(a) else a for a in args)
        return func(*args, **kwargs)


def _is_device(argument: Any) -> bool:
    return isinstance(argument, torch.device) or (
        isinstance(argument, str) and argument.partition(":")[0] in ("cpu", "cuda", "meta")
    )
