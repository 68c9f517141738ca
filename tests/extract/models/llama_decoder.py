"""Decoder layers in the manner of Llama: grouped-query attention with rotary positions, SwiGLU, RMSNorm.

``Decoder`` is small enough for a test; ``Llama8BLayer`` has the sizes of Llama 3.1 8B.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    """Causal attention, several query heads to a key head."""

    def __init__(self, hidden: int, heads: int, kv_heads: int, head_dim: int) -> None:
        super().__init__()
        self.head_dim = head_dim
        self.q_proj = nn.Linear(hidden, heads * head_dim, bias=False)
        self.k_proj = nn.Linear(hidden, kv_heads * head_dim, bias=False)
        self.v_proj = nn.Linear(hidden, kv_heads * head_dim, bias=False)
        self.o_proj = nn.Linear(heads * head_dim, hidden, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        def split(projected: torch.Tensor) -> torch.Tensor:
            return projected.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)

        q, k = rotate(split(self.q_proj(x)), cos, sin), rotate(split(self.k_proj(x)), cos, sin)
        v = split(self.v_proj(x))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o_proj(mixed.transpose(1, 2).flatten(2))


def rotate(heads: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Turn channel i and channel i + half by the position's angle, in single precision."""
    low, high = heads.float().chunk(2, dim=-1)
    return torch.cat((low * cos - high * sin, high * cos + low * sin), dim=-1).to(heads.dtype)


class Mlp(nn.Module):
    """down(silu(gate(x)) * up(x))."""

    def __init__(self, hidden: int, intermediate: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden, intermediate, bias=False)
        self.up_proj = nn.Linear(hidden, intermediate, bias=False)
        self.down_proj = nn.Linear(intermediate, hidden, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """Two pre-normalised residual branches."""

    def __init__(self, hidden: int, intermediate: int, heads: int, kv_heads: int, head_dim: int) -> None:
        super().__init__()
        self.input_norm = nn.RMSNorm(hidden, eps=1e-5)
        self.attention = Attention(hidden, heads, kv_heads, head_dim)
        self.post_norm = nn.RMSNorm(hidden, eps=1e-5)
        self.mlp = Mlp(hidden, intermediate)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.input_norm(x), cos, sin)
        return x + self.mlp(self.post_norm(x))


class Stack(nn.Module):
    """Layers that share one table of angles, made from the positions."""

    def __init__(
        self, layers: int, hidden: int, intermediate: int, heads: int, kv_heads: int, head_dim: int, theta: float = 5e5
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(hidden, intermediate, heads, kv_heads, head_dim) for _ in range(layers))
        half = head_dim // 2
        self.register_buffer("inverse_frequency", theta ** (-torch.arange(half) / half), persistent=False)

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(hidden_states.shape[1], device=hidden_states.device)
        angles = positions[:, None].float() * self.inverse_frequency
        cos, sin = angles.cos(), angles.sin()
        for layer in self.layers:
            hidden_states = layer(hidden_states, cos, sin)
        return hidden_states


def decoder() -> nn.Module:
    """Three small layers."""
    torch.manual_seed(1)
    return _in_bfloat16(Stack(3, hidden=256, intermediate=704, heads=8, kv_heads=2, head_dim=32))


def llama_8b_layer() -> nn.Module:
    """One layer with the sizes of Llama 3.1 8B."""
    torch.manual_seed(1)
    return _in_bfloat16(Stack(1, hidden=4096, intermediate=14336, heads=32, kv_heads=8, head_dim=128))


def _in_bfloat16(stack: Stack) -> Stack:
    frequencies = stack.inverse_frequency
    stack = stack.to(torch.bfloat16)
    stack.inverse_frequency = frequencies  # angles need single precision
    return stack


def _calls(hidden: int, lengths: tuple[int, ...]) -> list[dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(2)
    return [
        {"hidden_states": torch.randn(1, tokens, hidden, generator=generator).to(torch.bfloat16)} for tokens in lengths
    ]


def examples() -> list[dict[str, torch.Tensor]]:
    """Calls of ``decoder``: one token, and prompts of two lengths."""
    return _calls(256, (1, 24, 128))


def llama_8b_examples() -> list[dict[str, torch.Tensor]]:
    """Calls of ``llama_8b_layer``."""
    return _calls(4096, (1, 128, 1024))


AXES = {"hidden_states": {0: "batch", 1: "tokens"}}
# Of both models, so without 32: the head size of one and the number of heads of the other.
SIZES = {256: "hidden", 704: "intermediate", 128: "head_dim", 4096: "hidden", 14336: "intermediate"}
