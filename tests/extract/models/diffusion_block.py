"""Blocks in the manner of a diffusion transformer: modulation by the time step, attention written out, GELU.

``Denoiser`` embeds the time step once and runs two blocks over image tokens; a text context enters by cross-attention
with a mask of the tokens that are there.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn


class SelfAttention(nn.Module):
    """Attention with normalised queries and keys, from one projection."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.query_norm = nn.RMSNorm(width // heads, eps=1e-6)
        self.key_norm = nn.RMSNorm(width // heads, eps=1e-6)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(self.query_norm(q), self.key_norm(k), v)
        return self.out(mixed.transpose(1, 2).flatten(2))


class CrossAttention(nn.Module):
    """Attention to the context, written out as products and a softmax."""

    def __init__(self, width: int, context_width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.to_query = nn.Linear(width, width, bias=False)
        self.to_key = nn.Linear(context_width, width, bias=False)
        self.to_value = nn.Linear(context_width, width, bias=False)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor, context: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
        def split(projected: torch.Tensor) -> torch.Tensor:
            return projected.unflatten(-1, (self.heads, -1)).transpose(1, 2)

        q, k, v = split(self.to_query(x)), split(self.to_key(context)), split(self.to_value(context))
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(~present[:, None, None, :], float("-inf"))
        mixed = scores.softmax(dim=-1) @ v
        return self.out(mixed.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """Self-attention, cross-attention and a feed-forward branch; the time step scales, shifts and gates."""

    def __init__(self, width: int, context_width: int, heads: int) -> None:
        super().__init__()
        self.modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))
        self.norm_1 = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.attention = SelfAttention(width, heads)
        self.cross = CrossAttention(width, context_width, heads)
        self.norm_2 = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(
        self, x: torch.Tensor, time: torch.Tensor, context: torch.Tensor, present: torch.Tensor
    ) -> torch.Tensor:
        shift_1, scale_1, gate_1, shift_2, scale_2, gate_2 = self.modulation(time)[:, None, :].chunk(6, dim=-1)
        x = x + gate_1 * self.attention(self.norm_1(x) * (1 + scale_1) + shift_1)
        x = x + self.cross(x, context, present)
        hidden = F.gelu(self.up(self.norm_2(x) * (1 + scale_2) + shift_2), approximate="tanh")
        return x + gate_2 * self.down(hidden)


class Denoiser(nn.Module):
    """Time embedding and blocks."""

    def __init__(self, blocks: int, width: int, context_width: int, heads: int) -> None:
        super().__init__()
        self.width = width
        self.time = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
        self.blocks = nn.ModuleList(Block(width, context_width, heads) for _ in range(blocks))

    def forward(
        self, image: torch.Tensor, step: torch.Tensor, context: torch.Tensor, present: torch.Tensor
    ) -> torch.Tensor:
        half = self.width // 2
        frequencies = torch.exp(-math.log(10000.0) * torch.arange(half, device=image.device) / half)
        angles = step[:, None].float() * frequencies
        time = self.time(torch.cat((angles.cos(), angles.sin()), dim=-1).to(image.dtype))
        for block in self.blocks:
            image = block(image, time, context, present)
        return image


def denoiser() -> nn.Module:
    """Two small blocks."""
    torch.manual_seed(1)
    return Denoiser(2, width=128, context_width=96, heads=4)


def examples() -> list[tuple[torch.Tensor, ...]]:
    """Two images of different size for one batch size, with a context that is shorter for the second of the batch."""
    generator = torch.Generator().manual_seed(2)
    calls = []
    for tokens, words in ((64, 12), (144, 20)):
        present = torch.arange(words) < torch.tensor([[words], [words - 5]])
        image = torch.randn(2, tokens, 128, generator=generator)
        context = torch.randn(2, words, 96, generator=generator)
        calls.append((image, torch.tensor([17, 560]), context, present))
    return calls


AXES = {"image": {1: "tokens"}, "context": {1: "words"}, "present": {1: "words"}}
SIZES = {128: "width", 512: "hidden", 96: "context_width"}
