"""The model train.py trains and export_gguf.py writes: Qwen3's Mixture-of-Experts layer, small.

A layer is attention with normed, rotated queries and keys in grouped heads, then experts chosen by
the top-k of a softmax whose weights are brought to a sum of one. The head is the embedding. Weights
are (outputs, inputs) matrices, as gguf stores them; the names of gguf are in export_gguf.py.
"""

import dataclasses
import math

import torch
from torch import nn
from torch.nn import functional

NORM_EPSILON = 1e-6
ROPE_BASE = 10000.0


@dataclasses.dataclass(frozen=True)
class Shape:
    vocab: int = 2048
    embd: int = 256
    layers: int = 6
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 64
    experts: int = 64
    used: int = 4
    ff: int = 64
    context: int = 256  # tokens of a training window


def rms_norm(x, weight):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + NORM_EPSILON) * weight


def noise(*shape, std):
    return nn.Parameter(torch.randn(*shape) * std)


def ones(n):
    return nn.Parameter(torch.ones(n))


class Rotation(nn.Module):
    """Rotary positions of the kind that pairs element i with element i + head_dim / 2."""

    def __init__(self, shape):
        super().__init__()
        frequencies = ROPE_BASE ** (-torch.arange(0, shape.head_dim, 2) / shape.head_dim)
        angles = torch.outer(torch.arange(shape.context).float(), frequencies)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, x):
        n = x.shape[-2]
        first, second = x.chunk(2, dim=-1)
        cos, sin = self.cos[:n], self.sin[:n]
        return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


class Attention(nn.Module):
    def __init__(self, shape, std):
        super().__init__()
        self.shape = shape
        width = shape.heads * shape.head_dim
        kv_width = shape.kv_heads * shape.head_dim
        self.q = noise(width, shape.embd, std=std)
        self.k = noise(kv_width, shape.embd, std=std)
        self.v = noise(kv_width, shape.embd, std=std)
        self.output = noise(shape.embd, width, std=std / math.sqrt(2 * shape.layers))
        self.q_norm = ones(shape.head_dim)
        self.k_norm = ones(shape.head_dim)

    def _heads(self, x, weight, n_heads):
        batch, n, _ = x.shape
        return (x @ weight.T).view(batch, n, n_heads, self.shape.head_dim).transpose(1, 2)

    def forward(self, x, rotate):
        shape = self.shape
        batch, n, _ = x.shape
        q = rotate(rms_norm(self._heads(x, self.q, shape.heads), self.q_norm))
        k = rotate(rms_norm(self._heads(x, self.k, shape.kv_heads), self.k_norm))
        v = self._heads(x, self.v, shape.kv_heads)
        repeats = shape.heads // shape.kv_heads
        k, v = k.repeat_interleave(repeats, 1), v.repeat_interleave(repeats, 1)
        future = torch.full((n, n), float("-inf")).triu(1)
        scores = (q @ k.transpose(-1, -2) / math.sqrt(shape.head_dim) + future).softmax(-1)
        return (scores @ v).transpose(1, 2).reshape(batch, n, -1) @ self.output.T


class Experts(nn.Module):
    def __init__(self, shape, std):
        super().__init__()
        self.shape = shape
        self.router = noise(shape.experts, shape.embd, std=0.02)
        self.gate = noise(shape.experts, shape.ff, shape.embd, std=std)
        self.up = noise(shape.experts, shape.ff, shape.embd, std=std)
        self.down = noise(shape.experts, shape.embd, shape.ff,
                          std=2 * std / math.sqrt(2 * shape.layers))

    def _balance(self, probabilities, counts):
        """1 when all experts are used alike, more otherwise: the usual auxiliary loss."""
        share = torch.tensor(counts, dtype=torch.float) / sum(counts)
        return self.shape.experts * (share * probabilities.mean(0)).sum()

    def _run(self, rows, counts):
        """Each expert on its run of consecutive rows."""
        outputs = []
        for expert, part in enumerate(rows.split(counts)):
            if len(part):
                hidden = functional.silu(part @ self.gate[expert].T) * (part @ self.up[expert].T)
                outputs.append(hidden @ self.down[expert].T)
        return torch.cat(outputs)

    def forward(self, x):
        rows = x.reshape(-1, self.shape.embd)
        probabilities = (rows @ self.router.T).softmax(-1)
        weights, chosen = probabilities.topk(self.shape.used, -1)
        weights = weights / weights.sum(-1, keepdim=True)
        order = chosen.flatten().argsort(stable=True)
        tokens = order // self.shape.used
        counts = torch.bincount(chosen.flatten(), minlength=self.shape.experts).tolist()
        outputs = self._run(rows[tokens], counts) * weights.flatten()[order][:, None]
        summed = torch.zeros_like(rows).index_add(0, tokens, outputs)
        return summed.view_as(x), self._balance(probabilities, counts)


class Layer(nn.Module):
    def __init__(self, shape, std):
        super().__init__()
        self.attention_norm = ones(shape.embd)
        self.attention = Attention(shape, std)
        self.experts_norm = ones(shape.embd)
        self.experts = Experts(shape, std)

    def forward(self, x, rotate):
        x = x + self.attention(rms_norm(x, self.attention_norm), rotate)
        added, balance = self.experts(rms_norm(x, self.experts_norm))
        return x + added, balance


class Model(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        self.embedding = noise(shape.vocab, shape.embd, std=0.04)
        self.rotate = Rotation(shape)
        self.layers = nn.ModuleList(Layer(shape, std=0.05) for _ in range(shape.layers))
        self.norm = ones(shape.embd)

    def forward(self, tokens):
        """Logits of every position, and the mean balance loss of the layers."""
        x = self.embedding[tokens]
        balance = 0.0
        for layer in self.layers:
            x, of_layer = layer(x, self.rotate)
            balance = balance + of_layer / self.shape.layers
        return rms_norm(x, self.norm) @ self.embedding.T, balance
