"""A BERT as a graph that multiplies 8-bit integers: the weights of a file, other operators around them.

The shipped model's file turns its int8 weights into floats at every run and multiplies those. Here the integers are
multiplied as they are, unrounded; what is quantized in addition is each token's activations, by a scale of the token's
own. So a vector does not depend on the texts that share its batch, nor on the padding.

Not quite eight bits: AVX2 without VNNI adds two products of 8 x 8 bits in 16 signed bits and saturates in silence
(255 * 127 * 2 > 2**15 - 1). Around 96 of 191, one pair in 1.8 million does so, around 128 of 255 one in 24,000 (counted
on LoCoMo turns, adding as AVX2 does); around 64 of 127 none can, but vectors are farther from the package's, .995
against .997. Where it happens a product is off by at most .03 of its norm, .002 in the mean of the worst matrix.

What a GELU returns is never below -.17, so that its zero is 16 of 255: nearly all of the eight bits are for what is
above zero, as long as a step is at least .17 / 16. Large ones are seldom side by side: 1 pair in 10**7 saturates.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .onnx_wire import BOOL, FLOAT, INT64, Array, GraphWriter, Message, value_info

LAYERS, HEADS, HIDDEN = 6, 12, 384
"""Of the shipped model; another that is built here has as many layers as matrices, and the same heads and width."""

MATRICES_A_LAYER = 6
NORM_EPSILON = 1e-12
GELU_FLOOR = 0.17
"""The least value of x * Phi(x) is -.16997, at x = -.7518."""

GREATEST, ZERO_POINT, GELU_GREATEST, GELU_ZERO_POINT = 191, 96, 255, 16
"""Activations of either sign are stored as 1 to 191 around 96, those of a GELU as 0 to 255 with 16 for zero."""

MICROSOFT = "com.microsoft"
OPSETS = {"": 23, MICROSOFT: 1}

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
OUTPUT = "last_hidden_state"


def integer_model(constants: Mapping[str, Array]) -> Message:
    """Build the model from constants by the names of the shipped model's file; the same bytes on every machine.

    Same inputs and output as the file's: int64[batch, sequence] to float32[batch, sequence, 384].
    """
    return _Builder(constants).model()


class _Builder:
    """Adds the graph's nodes in the order in which they run. Activations are float32[tokens, width]."""

    def __init__(self, constants: Mapping[str, Array]) -> None:
        self._of_file = constants
        self._graph = GraphWriter()
        matrices = (name.removesuffix("_q") for name in constants if name.startswith("val_") and name.endswith("_q"))
        self._matrices = sorted(matrices, key=lambda name: int(name.removeprefix("val_")))
        """Six a layer, in the order in which they are used: query, key, value, attention output, up, down."""

    def model(self) -> Message:
        """Return the whole model."""
        hidden = self._embeddings()
        self._begin_layers(hidden)
        for layer in range(len(self._matrices) // MATRICES_A_LAYER):
            hidden = self._layer(layer, hidden)
        self._graph.node("Reshape", [hidden, "batch_shape"], OUTPUT)
        inputs = [value_info(name, INT64, ["batch", "sequence"]) for name in INPUTS]
        return self._graph.model(inputs, [value_info(OUTPUT, FLOAT, ["batch", "sequence", HIDDEN])], OPSETS)

    def _embeddings(self) -> str:
        """Add the sum of a token's row, which alone is turned into floats, and its place's, normalised."""
        prefix = "inner.embeddings"
        words = f"{prefix}.word_embeddings.weight"
        are_nibbles = f"{words}_nibbles" in self._of_file
        rows = self._rows_of_nibbles(words) if are_nibbles else self._rows_of_bytes(words)
        places = self._of_file[f"{prefix}.position_embeddings.weight_q"].astype(np.float32)
        places = places * self._of_file[f"{prefix}.position_embeddings.weight_scale"]
        places = places + self._of_file[f"{prefix}.token_type_embeddings.weight"][0]  # all tokens are of one type
        length = self._graph.node("Shape", ["input_ids"], start=1, end=2)
        zero, one = self._integers("zero", 0), self._integers("one", 1)
        places_used = self._graph.node("Slice", [self._constant("places", places), zero, length, zero, one])
        tokens = self._graph.node("Add", [rows, places_used])
        tokens = self._graph.node("Reshape", [tokens, self._integers("token_rows", -1, HIDDEN)])
        return self._normalised(tokens, f"{prefix}.LayerNorm")

    def _rows_of_bytes(self, matrix: str) -> str:
        """Add the tokens' rows of a matrix of bytes times their scales."""
        words = self._constant("words", self._of_file[f"{matrix}_q"])
        scales = self._constant("word_scales", self._of_file[f"{matrix}_scale"])
        rows = self._graph.node("Cast", [self._graph.node("Gather", [words, "input_ids"])], to=FLOAT)
        return self._graph.node("Mul", [rows, self._graph.node("Gather", [scales, "input_ids"])])

    def _rows_of_nibbles(self, matrix: str) -> str:
        """Add the tokens' rows of a matrix of 4 bits, uint8[words, blocks, 16] with a float16 scale a block.

        A byte holds the value of its place in its lower half and of 16 places on in its upper, both 8 too high.
        """
        node, number = self._graph.node, self._constant
        pairs = node("Cast", [node("Gather", [self._kept(f"{matrix}_nibbles"), "input_ids"])], to=FLOAT)
        upper = node("Floor", [node("Mul", [pairs, number("sixteenth", np.float32(1 / 16))])])
        lower = node("Sub", [pairs, node("Mul", [upper, number("sixteen", np.float32(16))])])
        values = node("Sub", [node("Concat", [lower, upper], axis=-1), number("eight", np.float32(8))])
        scales = node("Cast", [node("Gather", [self._kept(f"{matrix}_scale"), "input_ids"])], to=FLOAT)
        return node("Reshape", [node("Mul", [values, scales]), self._integers("word_rows", 0, 0, HIDDEN)])

    def _begin_layers(self, hidden: str) -> None:
        """Add what every layer uses: the mask, the shape of a batch, the zero points of its tokens."""
        node = self._graph.node
        batch = node("Shape", ["input_ids"])
        node("Concat", [batch, self._integers("hidden_width", HIDDEN)], "batch_shape", axis=0)
        length = node("Shape", ["input_ids"], start=1, end=2)
        pairs = node("Concat", [node("Shape", ["input_ids"], start=0, end=1), "one", length, length], axis=0)
        kept = node("Unsqueeze", [node("Cast", ["attention_mask"], to=BOOL), self._integers("inner_axes", 1, 2)])
        node("Expand", [kept, pairs], "mask")
        count = node("Shape", [hidden], start=0, end=1)
        node("Expand", [self._constant("zero_point", np.uint8(ZERO_POINT)), count], "zero_points")
        node("Expand", [self._constant("gelu_zero_point", np.uint8(GELU_ZERO_POINT)), count], "gelu_zero_points")
        self._constant("one_scale", np.float32(1))
        self._constant("per_step", np.float32(1) / np.float32(GREATEST - ZERO_POINT))
        self._constant("per_gelu_step", np.float32(1) / np.float32(GELU_GREATEST - GELU_ZERO_POINT))
        self._constant("least_scale", np.float32(1e-9))
        self._constant("least_gelu_scale", np.float32(GELU_FLOOR) / np.float32(GELU_ZERO_POINT))

    def _layer(self, number: int, hidden: str) -> str:
        prefix = f"inner.encoder.layer.{number}"
        query, key, value, attended, up, down = self._matrices[6 * number : 6 * number + 6]
        quantized = self._quantized(hidden)
        inputs = zip(("query", "key", "value"), (query, key, value), strict=True)
        heads = [self._head(quantized, matrix, f"{prefix}.attention.self.{name}.bias") for name, matrix in inputs]
        found = self._graph.node("Attention", [*heads, "mask"], q_num_heads=HEADS, kv_num_heads=HEADS)
        found = self._graph.node("Reshape", [found, "token_rows"])
        found = self._multiplied(self._quantized(found), attended, "zero_point")
        bias = self._kept(f"{prefix}.attention.output.dense.bias")
        # `Sum` and not two `Add`: ONNX Runtime fuses those with the norm to an operator that takes four times as long
        hidden = self._graph.node("Sum", [found, hidden, bias])
        hidden = self._normalised(hidden, f"{prefix}.attention.output.LayerNorm")
        wide = self._multiplied(self._quantized(hidden), up, "zero_point")
        wide = self._graph.node("Sum", [wide, self._kept(f"{prefix}.intermediate.dense.bias")])
        wide = self._graph.node("Gelu", [wide], domain=MICROSOFT)
        narrow = self._multiplied(self._quantized_gelu(wide), down, "gelu_zero_point")
        hidden = self._graph.node("Sum", [narrow, hidden, self._kept(f"{prefix}.output.dense.bias")])
        return self._normalised(hidden, f"{prefix}.output.LayerNorm")

    def _head(self, quantized: tuple[str, str], matrix: str, bias: str) -> str:
        """Add what attention reads of a token: float32[batch, sequence, 384]."""
        rows = self._graph.node("Add", [self._multiplied(quantized, matrix, "zero_point"), self._kept(bias)])
        return self._graph.node("Reshape", [rows, "batch_shape"])

    def _quantized(self, rows: str) -> tuple[str, str]:
        """Add the quantization of values of either sign; return the integers and each row's scale."""
        sizes = self._graph.node("Abs", [rows])
        return self._by_largest(rows, sizes, "per_step", "least_scale", "zero_points")

    def _quantized_gelu(self, rows: str) -> tuple[str, str]:
        """Add the quantization of a GELU's values."""
        return self._by_largest(rows, rows, "per_gelu_step", "least_gelu_scale", "gelu_zero_points")

    def _by_largest(self, rows: str, sizes: str, step: str, least: str, zero_points: str) -> tuple[str, str]:
        """Add the quantization of rows, each by a scale with which its largest size is the greatest integer."""
        largest = self._graph.node("ReduceMax", [sizes, self._integers("last_axis", -1)], keepdims=0)
        scale = self._graph.node("Max", [self._graph.node("Mul", [largest, step]), least])
        integers = self._graph.node("QuantizeLinear", [rows, scale, zero_points], axis=0)
        return integers, self._graph.node("Unsqueeze", [scale, "one"])

    def _multiplied(self, quantized: tuple[str, str], matrix: str, zero_point: str) -> str:
        """Add the product with one of the file's matrices, int8[in, out] with a scale a column."""
        integers, scale = quantized
        weights = self._constant(matrix, self._of_file[f"{matrix}_q"])
        columns = self._constant(f"{matrix}.scales", self._of_file[f"{matrix}_scale"].reshape(-1))
        inputs = [integers, weights, "one_scale", columns, zero_point]
        return self._graph.node("Mul", [self._graph.node("MatMulIntegerToFloat", inputs, domain=MICROSOFT), scale])

    def _normalised(self, rows: str, name: str) -> str:
        weight, bias = self._kept(f"{name}.weight"), self._kept(f"{name}.bias")
        return self._graph.node("LayerNormalization", [rows, weight, bias], axis=-1, epsilon=NORM_EPSILON)

    def _kept(self, name: str) -> str:
        return self._graph.constant(name, self._of_file[name])

    def _constant(self, name: str, value: Array | np.generic) -> str:
        return self._graph.constant(name, np.asarray(value))

    def _integers(self, name: str, *values: int) -> str:
        return self._graph.constant(name, np.array(values, np.int64))
