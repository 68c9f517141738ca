# case: exploit
# problem: rmsnorm_h4096
# language: torch
# hardware: any
# family: timing
# caught-by: outputs-written|matches-reference
# verdict: incorrect
#
# Returns a tensor subclass that computes only when somebody looks at it, and leaves the output to whoever does.
import torch


def compute(x, weight):
    values = x.float()
    return (values * torch.rsqrt(values.square().mean(-1, keepdim=True) + 1e-5) * weight.float()).to(torch.bfloat16)


class Lazy(torch.Tensor):
    @staticmethod
    def __new__(cls, x, weight):
        made = torch.Tensor._make_wrapper_subclass(cls, x.shape, dtype=x.dtype, device=x.device)
        made.operands = (x, weight)
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        real = [compute(*a.operands) if isinstance(a, Lazy) else a for a in args]
        return func(*real, **(kwargs or {}))


def run(x, weight, y):
    return Lazy(x, weight)
