"""Gate and up projection of each token's experts in NVFP4, SwiGLU and routing weight, in single precision."""

import torch
import torch.nn.functional as F

# The sixteen numbers of e2m1 by their codes: one sign bit, two of exponent, one of mantissa.
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)


def _decode(packed: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Packed codes [..., k / 2] times scales [..., k / 16] as float32 [..., k]. Exact: at most 6 significant bits."""
    codes = packed.view(torch.uint8)
    codes = torch.stack((codes & 15, codes >> 4), dim=-1).flatten(-2)  # the even channel is the low half of a byte
    values = torch.tensor(E2M1, device=packed.device)[codes.int()]
    return values * scale.float().repeat_interleave(16, dim=-1)


def make_inputs(axes_and_scalars: dict, device: torch.device) -> dict[str, torch.Tensor]:
    """Experts of very unlike popularity, some without a token; quantised operands; projections of size about one."""
    tokens, experts, top_k, hidden, gate_up = (
        axes_and_scalars[name] for name in ("tokens", "experts", "top_k", "hidden", "gate_up")
    )
    x, x_scale = _packed(tokens, hidden, device)
    weight, weight_scale = _packed(experts * gate_up, hidden, device)
    # A code's root mean square is 2.93, a scale's about 1.2.
    alpha = torch.exp2(torch.rand(experts, device=device) - 0.5) * (1 / (12.0 * hidden**0.5))
    # The same popularities always, of other experts each time: how many experts are in use belongs to the workload.
    share = (torch.randperm(experts, device=device) + 0.5) / experts
    popularity = torch.special.ndtri(share) * 1.5
    noise = -torch.log(-torch.log(torch.rand(tokens, experts, device=device).clamp(1e-9, 1 - 1e-7)))
    ids = (popularity + noise).topk(top_k, dim=1).indices
    return {
        "x": x,
        "x_scale": x_scale,
        "weight": weight.view(experts, gate_up, -1),
        "weight_scale": weight_scale.view(experts, gate_up, -1),
        "alpha": alpha,
        "expert_ids": ids.int(),
        "routing_weights": torch.softmax(torch.randn(tokens, top_k, device=device), dim=1),
    }


def _packed(rows: int, k: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes of every kind, and scales that differ from row to row and from block to block, around one."""
    codes = torch.randint(0, 256, (rows, k // 2), dtype=torch.uint8, device=device).view(torch.float4_e2m1fn_x2)
    scale = torch.exp2(torch.rand(rows, 1, device=device) * 2 - 1) * (0.5 + torch.rand(rows, k // 16, device=device))
    return codes, scale.to(torch.float8_e4m3fn)


@torch.no_grad()
def run(
    x: torch.Tensor,
    x_scale: torch.Tensor,
    weight: torch.Tensor,
    weight_scale: torch.Tensor,
    alpha: torch.Tensor,
    expert_ids: torch.Tensor,
    routing_weights: torch.Tensor,
) -> torch.Tensor:
    (tokens, top_k), (experts, gate_up) = expert_ids.shape, weight.shape[:2]
    y = torch.empty(tokens, top_k, gate_up // 2, dtype=torch.bfloat16, device=x.device)
    rows = _decode(x, x_scale)
    for expert in range(experts):
        token, choice = torch.where(expert_ids == expert)
        if token.numel() == 0:
            continue
        projected = rows[token] @ _decode(weight[expert], weight_scale[expert]).t() * alpha[expert]
        gate, up = projected.chunk(2, dim=1)
        gated = F.silu(gate) * up * routing_weights[token, choice, None]
        y[token, choice] = gated.to(torch.bfloat16)
    return y
