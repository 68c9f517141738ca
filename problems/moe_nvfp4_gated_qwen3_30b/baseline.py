"""Only the experts in use, unpacked to bfloat16: one grouped product on GPUs, one product per expert elsewhere."""

import torch
import torch.nn.functional as F

E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)
_PAIRS: dict[torch.device, torch.Tensor] = {}


def _pairs(device: torch.device) -> torch.Tensor:
    """Both numbers of every byte, so that unpacking is one look-up: bfloat16 [256, 2]."""
    if device not in _PAIRS:
        values = torch.tensor(E2M1, dtype=torch.bfloat16)
        byte = torch.arange(256)
        _PAIRS[device] = torch.stack((values[byte & 15], values[byte >> 4]), dim=-1).to(device)
    return _PAIRS[device]


def _decode(packed: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Packed rows [rows, k / 2] times scales [rows, k / 16] as bfloat16 [rows, k], which holds the products exactly."""
    rows, groups = scale.shape
    pairs = F.embedding(packed.view(torch.uint8).int(), _pairs(packed.device))
    values = pairs.view(rows, groups, 16)
    return values.mul_(scale.to(torch.bfloat16)[:, :, None]).view(rows, groups * 16)


@torch.no_grad()
def run(
    x: torch.Tensor,
    x_scale: torch.Tensor,
    weight: torch.Tensor,
    weight_scale: torch.Tensor,
    alpha: torch.Tensor,
    expert_ids: torch.Tensor,
    routing_weights: torch.Tensor,
    y: torch.Tensor,
) -> None:
    top_k = expert_ids.shape[1]
    experts, gate_up, packed = weight.shape
    order = expert_ids.flatten().argsort(stable=True)
    owner = expert_ids.flatten()[order]
    ends = torch.bincount(owner, minlength=experts) if not x.is_cuda else None
    rows = _decode(x, x_scale).index_select(0, order // top_k)
    if ends is None:
        # Every expert is unpacked, used or not: asking which are would wait for the device.
        ends = torch.searchsorted(owner, torch.arange(experts, device=x.device, dtype=owner.dtype), right=True)
        unpacked = _decode(weight.view(torch.uint8).view(-1, packed), weight_scale.view(experts * gate_up, -1))
        unpacked = unpacked.view(experts, gate_up, -1)
        projected = torch._grouped_mm(rows, unpacked.transpose(1, 2), offs=ends.int()).float()
    else:
        parts = []
        for expert, part in enumerate(rows.split(ends.tolist())):
            if part.shape[0]:
                parts.append(part @ _decode(weight[expert], weight_scale[expert]).t())
        projected = torch.cat(parts).float()
    gate, up = projected.mul_(alpha[owner][:, None]).chunk(2, dim=1)
    gated = F.silu(gate).mul_(up).mul_(routing_weights.flatten()[order][:, None])
    y.view(-1, gate_up // 2).index_copy_(0, order, gated.to(y.dtype))
