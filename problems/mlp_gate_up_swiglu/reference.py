"""Gate and up projection with the SwiGLU gate; the projection is kept in single precision, the result rounded once."""

import torch


def make_inputs(axes_and_scalars: dict, device: torch.device) -> dict[str, torch.Tensor]:
    """Hidden states of unlike scale per token, so that gates are linear in some rows and saturated in others."""
    tokens, hidden = axes_and_scalars["tokens"], axes_and_scalars["hidden"]
    token_scale = torch.exp2(torch.rand(tokens, 1, device=device) * 3 - 1)
    return {"x": torch.randn(tokens, hidden, device=device).mul_(token_scale).to(torch.bfloat16)}


@torch.no_grad()
def run(x: torch.Tensor, gate_up_weight: torch.Tensor) -> torch.Tensor:
    gate, up = torch.matmul(x.float(), gate_up_weight.float().t()).chunk(2, dim=-1)
    return (gate * torch.sigmoid(gate) * up).to(torch.bfloat16)
