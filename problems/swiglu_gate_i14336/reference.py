"""SwiGLU gate in single precision, rounded once at the end."""

import torch


@torch.no_grad()
def run(gate_up: torch.Tensor) -> torch.Tensor:
    gate, up = gate_up.float().chunk(2, dim=-1)
    return (gate * torch.sigmoid(gate) * up).to(torch.bfloat16)
