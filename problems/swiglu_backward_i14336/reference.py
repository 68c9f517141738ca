"""Gradients of the SwiGLU gate in single precision, rounded once at the end."""

import torch


def make_inputs(axes_and_scalars: dict, device: torch.device) -> dict[str, torch.Tensor]:
    """Rows of unlike scale, in the activations (1/2 to 4) and in the gradient (1/4 to 4)."""
    tokens, width, packed = (axes_and_scalars[name] for name in ("tokens", "intermediate", "packed_width"))
    row_scale = torch.exp2(torch.rand(tokens, 1, device=device) * 3 - 1)
    gate_up = torch.randn(tokens, packed, device=device).mul_(row_scale)
    dy = torch.randn(tokens, width, device=device)
    dy *= torch.exp2(torch.rand(tokens, 1, device=device) * 4 - 2)
    return {"dy": dy.to(torch.bfloat16), "gate_up": gate_up.to(torch.bfloat16)}


@torch.no_grad()
def run(dy: torch.Tensor, gate_up: torch.Tensor) -> torch.Tensor:
    gate, up = gate_up.float().chunk(2, dim=-1)
    gradient, sigmoid = dy.float(), torch.sigmoid(gate)
    dgate = gradient * up * sigmoid * (1 + gate * (1 - sigmoid))
    dup = gradient * gate * sigmoid
    return torch.cat((dgate, dup), dim=-1).to(torch.bfloat16)
