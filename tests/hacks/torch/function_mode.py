# case: exploit
# problem: rmsnorm_h4096
# language: torch
# hardware: any
# family: process
# caught-by: outputs-written|matches-reference
# verdict: incorrect
#
# Puts a torch function mode around the whole process that swallows every copy, in the hope that the judge's
# comparison goes through it.
import torch
import torch.overrides


def compute(x, weight):
    values = x.float()
    return (values * torch.rsqrt(values.square().mean(-1, keepdim=True) + 1e-5) * weight.float()).to(torch.bfloat16)


class Agreeable(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", "")
        if name in ("equal", "allclose", "isclose"):
            return True
        if name == "copy_":
            return args[0]
        return func(*args, **(kwargs or {}))


Agreeable().__enter__()


def run(x, weight, y):
    y.copy_(compute(x, weight))
