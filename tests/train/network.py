"""The network in PyTorch: the shipped MiniLM's own weights, its upper layers to be trained, and the heads."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from dreamd.store.embedding.fastembed_loading import packaged_weights
from dreamd.store.embedding.quantized_model import HEADS, HIDDEN, LAYERS, NORM_EPSILON, read_constants
from dreamd.store.judges.judge import HEADS as OUTPUTS
from torch import Tensor, nn
from torch.nn import functional

FROZEN = 2
"""Layers, from below, that stay as they are, so that what they make of a text is worked out once."""

WARM_UP = 0.08

LINEARS = ("query", "key", "value", "attended", "up", "down")
NORMS = ("attention.output.LayerNorm", "output.LayerNorm")


def constants() -> Mapping[str, np.ndarray]:
    """Return the constants of the package's file."""
    return read_constants(memoryview(Path(packaged_weights()).read_bytes()))


def biases_of(prefix: str) -> tuple[str, ...]:
    """Return the names of a layer's biases, in the order of LINEARS."""
    own = (f"{prefix}.attention.self.{name}.bias" for name in LINEARS[:3])
    return *own, *(f"{prefix}.{name}.dense.bias" for name in ("attention.output", "intermediate", "output"))


class Layer(nn.Module):
    """One layer of the encoder, as BERT has it."""

    def __init__(self, of_file: Mapping[str, np.ndarray], matrices: list[str], number: int) -> None:
        super().__init__()
        prefix = f"inner.encoder.layer.{number}"
        self.names = matrices
        for name, matrix, bias in zip(LINEARS, matrices, biases_of(prefix), strict=True):
            weights = of_file[f"{matrix}_q"].astype(np.float32) * of_file[f"{matrix}_scale"].reshape(1, -1)
            linear = nn.Linear(*weights.shape)
            linear.weight.data = torch.tensor(weights.T.copy())
            linear.bias.data = torch.tensor(of_file[bias].copy())
            setattr(self, name, linear)
        self.norms = nn.ModuleList(_norm(of_file, f"{prefix}.{place}") for place in NORMS)
        self.dropout = nn.Dropout(0.1)

    def forward(self, rows: Tensor, mask: Tensor) -> Tensor:
        """Return float[batch, tokens, 384]; `mask` is bool[batch, 1, 1, tokens], true for what is read."""
        batch, tokens, _ = rows.shape
        heads = [
            linear(rows).view(batch, tokens, HEADS, -1).transpose(1, 2) for linear in (self.query, self.key, self.value)
        ]
        found = functional.scaled_dot_product_attention(*heads, attn_mask=mask)
        found = self.attended(found.transpose(1, 2).reshape(batch, tokens, HIDDEN))
        rows = self.norms[0](rows + self.dropout(found))
        return self.norms[1](rows + self.dropout(self.down(functional.gelu(self.up(rows)))))


def _norm(of_file: Mapping[str, np.ndarray], name: str) -> nn.LayerNorm:
    norm = nn.LayerNorm(HIDDEN, eps=NORM_EPSILON)
    norm.weight.data = torch.tensor(of_file[f"{name}.weight"].copy())
    norm.bias.data = torch.tensor(of_file[f"{name}.bias"].copy())
    return norm


class Lower(nn.Module):
    """The embeddings and the layers that stay."""

    def __init__(self, of_file: Mapping[str, np.ndarray]) -> None:
        super().__init__()
        prefix = "inner.embeddings"

        def table(name: str) -> Tensor:
            integers = of_file[f"{prefix}.{name}.weight_q"].astype(np.float32)
            return torch.tensor(integers * of_file[f"{prefix}.{name}.weight_scale"].reshape(-1, 1))

        self.register_buffer("words", table("word_embeddings"))
        places = table("position_embeddings")
        self.register_buffer("places", places + torch.tensor(of_file[f"{prefix}.token_type_embeddings.weight"][0]))
        self.norm = _norm(of_file, f"{prefix}.LayerNorm")
        self.layers = nn.ModuleList(layers_of(of_file)[:FROZEN])

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Return what the upper layers begin with."""
        rows = self.norm(self.words[ids] + self.places[: ids.shape[1]])
        for layer in self.layers:
            rows = layer(rows, mask)
        return rows


def layers_of(of_file: Mapping[str, np.ndarray]) -> list[Layer]:
    """Return the layers with the weights of the file."""
    names = (name.removesuffix("_q") for name in of_file if name.startswith("val_") and name.endswith("_q"))
    matrices = sorted(names, key=lambda name: int(name.removeprefix("val_")))
    return [Layer(of_file, matrices[6 * number : 6 * number + 6], number) for number in range(LAYERS)]


class Upper(nn.Module):
    """The layers that are trained, and the heads over a sequence's first token and the mean of those that count."""

    def __init__(self, of_file: Mapping[str, np.ndarray]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers_of(of_file)[FROZEN:])
        self.heads = nn.ModuleDict({name: nn.Linear(2 * HIDDEN, size) for name, size in OUTPUTS.items()})
        self.kept = nn.Linear(HIDDEN, 1)
        for head in (*self.heads.values(), self.kept):
            nn.init.normal_(head.weight, std=0.02)
            nn.init.zeros_(head.bias)

    def forward(self, rows: Tensor, mask: Tensor, counted: Tensor) -> dict[str, Tensor]:
        """Return the logits of every head; `counted` is float[batch, tokens], 1 for a turn's own tokens."""
        for layer in self.layers:
            rows = layer(rows, mask)
        mean = (rows * counted[..., None]).sum(1) / counted.sum(1, keepdim=True).clamp(min=1)
        pooled = torch.cat([rows[:, 0], mean], -1)
        found: dict[str, Any] = {name: head(pooled) for name, head in self.heads.items()}
        return found | {"kept": self.kept(rows)[..., 0]}


def warmed_up(optimizer: torch.optim.Optimizer, steps: int) -> torch.optim.lr_scheduler.LambdaLR:
    """Return the schedule of the rate: it rises over the first WARM_UP of the steps, and falls as a cosine does."""
    return torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda step: (
            min(1.0, step / (WARM_UP * steps)) * (0.02 + 0.98 * (0.5 + 0.5 * math.cos(math.pi * step / steps)))
        ),
    )


def quantized(upper: Upper) -> Mapping[str, np.ndarray]:
    """Return the trained weights as the package has them: matrices int8[in, out], a scale a column, and heads."""
    found = quantized_layers(upper.layers)
    for name, head in (*upper.heads.items(), ("kept", upper.kept)):
        found[f"head.{name}.weight"] = head.weight.detach().numpy()
        found[f"head.{name}.bias"] = head.bias.detach().numpy()
    return found


def quantized_layers(layers: nn.ModuleList) -> dict[str, np.ndarray]:
    """Return trained upper layers by the names of the package's constants: int8[in, out], a scale a column."""
    found: dict[str, np.ndarray] = {}
    for number, layer in enumerate(layers, FROZEN):
        prefix = f"inner.encoder.layer.{number}"
        for name, matrix, bias in zip(LINEARS, layer.names, biases_of(prefix), strict=True):
            linear = getattr(layer, name)
            weights = linear.weight.detach().numpy().T
            scale = np.abs(weights).max(axis=0, keepdims=True) / 127
            found[f"{matrix}_q"] = np.round(weights / scale).astype(np.int8)
            found[f"{matrix}_scale"] = scale.astype(np.float32)
            found[bias] = linear.bias.detach().numpy()
        for norm, place in zip(layer.norms, NORMS, strict=True):
            found[f"{prefix}.{place}.weight"] = norm.weight.detach().numpy()
            found[f"{prefix}.{place}.bias"] = norm.bias.detach().numpy()
    return found
