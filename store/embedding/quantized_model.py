"""The quantized model: a BERT's graph that multiplies 8-bit integers, built from a package's weights and written once.

No package has this file, and the `onnx` package, which could build it, is too large to install with the daemon. So the
few messages of ONNX that are needed are read and written here. The result is known by its hash on every machine.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import struct
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

# ---- ONNX files
#
# An ONNX file is one protobuf message (`onnx.proto` of ONNX 1.18). A message is a run of fields; a field is a key,
# `number << 3 | wire type`, and a value: a varint (wire type 0), four bytes (5), or a length and so many bytes (2), the
# form of a nested message too. `dims: [2, 384]` of a tensor, field 1, is `08 02 08 80 03`. The writer puts fields in
# the order of its calls and nothing else, so the same calls give the same bytes everywhere.

Array = NDArray[Any]
Attribute = int | float | Sequence[int]

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

ELEMENT_TYPES: dict[int, np.dtype[Any]] = {
    1: np.dtype("<f4"),
    2: np.dtype("u1"),
    3: np.dtype("i1"),
    6: np.dtype("<i4"),
    7: np.dtype("<i8"),
    9: np.dtype("?"),
    10: np.dtype("<f2"),
}
"""`TensorProto.DataType` to the type of its raw data, which is little-endian on every machine."""

FLOAT, INT64, BOOL = 1, 7, 9


class MalformedModel(ValueError):
    """The bytes are no ONNX model that this module can read."""


class ProtobufMessage:
    """A message that is being written: pieces, since weights are not copied, and their size in bytes."""

    def __init__(self) -> None:
        self.pieces: list[bytes | memoryview] = []
        self.size_bytes = 0

    def varint(self, number: int, value: int) -> ProtobufMessage:
        """Add an integer, not negative or of 64 bits."""
        return self._add(_varint(number << 3 | VARINT) + _varint(value & (2**64 - 1)))

    def fixed32(self, number: int, value: float) -> ProtobufMessage:
        """Add a float."""
        return self._add(_varint(number << 3 | FIXED32) + struct.pack("<f", value))

    def text(self, number: int, value: str) -> ProtobufMessage:
        """Add a string."""
        return self.raw(number, value.encode())

    def raw(self, number: int, value: bytes | memoryview) -> ProtobufMessage:
        """Add bytes."""
        return self._add(_varint(number << 3 | BYTES) + _varint(len(value)))._add(value)

    def message(self, number: int, value: ProtobufMessage) -> ProtobufMessage:
        """Add a nested message, as it is now."""
        self._add(_varint(number << 3 | BYTES) + _varint(value.size_bytes))
        self.pieces += value.pieces
        self.size_bytes += value.size_bytes
        return self

    def _add(self, piece: bytes | memoryview) -> ProtobufMessage:
        self.pieces.append(piece)
        self.size_bytes += len(piece)
        return self


@dataclass
class GraphWriter:
    """Nodes and constants of a graph, in the order in which they are added."""

    _nodes: list[ProtobufMessage] = field(default_factory=list)
    _constants: dict[str, ProtobufMessage] = field(default_factory=dict)

    def constant(self, name: str, value: Array) -> str:
        """Add a constant tensor, or none if one of that name is there; return its name."""
        if name not in self._constants:
            self._constants[name] = tensor(name, value)
        return name

    def node(
        self, operator: str, inputs: Sequence[str], output: str = "", domain: str = "", **attributes: Attribute
    ) -> str:
        """Add an operator with one output ("" gives it a name by its place); return the output's name."""
        name = output or f"{operator}_{len(self._nodes)}"
        node = ProtobufMessage()
        for given in inputs:
            node.text(1, given)
        node.text(2, name).text(3, f"node_{len(self._nodes)}").text(4, operator)
        for key, value in attributes.items():
            node.message(5, _attribute(key, value))
        self._nodes.append(node.text(7, domain))
        return name

    def model(
        self, inputs: Sequence[ProtobufMessage], outputs: Sequence[ProtobufMessage], opsets: Mapping[str, int]
    ) -> ProtobufMessage:
        """Return the whole model (`ModelProto`)."""
        graph = ProtobufMessage()
        for node in self._nodes:
            graph.message(1, node)
        graph.text(2, "model")
        for constant in self._constants.values():
            graph.message(5, constant)
        for given in inputs:
            graph.message(11, given)
        for output in outputs:
            graph.message(12, output)
        model = ProtobufMessage().varint(1, IR_VERSION).message(7, graph)
        for domain, version in opsets.items():
            model.message(8, ProtobufMessage().text(1, domain).varint(2, version))
        return model


IR_VERSION = 11
"""Of ONNX 1.18, which has opset 23; ONNX Runtime reads it since 1.22."""


def tensor(name: str, value: Array) -> ProtobufMessage:
    """Return a `TensorProto` over the array's own memory where that is contiguous and little-endian."""
    number = next(number for number, dtype in ELEMENT_TYPES.items() if dtype == value.dtype)
    message = ProtobufMessage()
    for size in value.shape:
        message.varint(1, size)
    contiguous = np.ascontiguousarray(value, ELEMENT_TYPES[number])
    return message.varint(2, number).text(8, name).raw(9, contiguous.reshape(-1).view(np.uint8).data)


def value_info(name: str, element_type: int, shape: Sequence[int | str]) -> ProtobufMessage:
    """Return a `ValueInfoProto`; a size that is a string is open, and named so."""
    sizes = ProtobufMessage()
    for size in shape:
        sizes.message(
            1, ProtobufMessage().varint(1, size) if isinstance(size, int) else ProtobufMessage().text(2, size)
        )
    kind = ProtobufMessage().varint(1, element_type).message(2, sizes)
    return ProtobufMessage().text(1, name).message(2, ProtobufMessage().message(1, kind))


def read_constants(model: memoryview) -> dict[str, Array]:
    """Read the initializers of a model's graph by name, as views of its bytes. Raises MalformedModel."""
    try:
        graph = next(value for number, value in _fields(model) if number == 7 and isinstance(value, memoryview))
        tensors = (value for number, value in _fields(graph) if number == 5 and isinstance(value, memoryview))
        return dict(map(_read_tensor, tensors))
    except (IndexError, KeyError, StopIteration, ValueError, struct.error) as problem:
        raise MalformedModel(f"no ONNX model that can be read ({type(problem).__name__})") from problem


def _read_tensor(message: memoryview) -> tuple[str, Array]:
    shape: list[int] = []
    element_type, name, raw = 0, "", memoryview(b"")
    for number, value in _fields(message):
        match number, value:
            case 1, int():
                shape.append(value)
            case 1, memoryview():  # packed
                shape += _varints(value)
            case 2, int():
                element_type = value
            case 8, memoryview():
                name = bytes(value).decode()
            case 9, memoryview():
                raw = value
    return name, np.frombuffer(raw, ELEMENT_TYPES[element_type]).reshape(shape)


def _fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Read the fields of a message: varints, and views of fields with a length; numbers of fixed size are left out."""
    at = 0
    while at < len(message):
        key, at = _read_varint(message, at)
        number, wire_type = key >> 3, key & 7
        if wire_type == VARINT:
            value, at = _read_varint(message, at)
            yield number, value
        elif wire_type == BYTES:
            size_bytes, at = _read_varint(message, at)
            if at + size_bytes > len(message):
                raise MalformedModel("a field that is longer than its message")
            yield number, message[at : at + size_bytes]
            at += size_bytes
        elif wire_type in (FIXED32, FIXED64):
            at += 4 if wire_type == FIXED32 else 8
        else:
            raise MalformedModel(f"wire type {wire_type}")


def _varints(packed: memoryview) -> list[int]:
    values, at = [], 0
    while at < len(packed):
        value, at = _read_varint(packed, at)
        values.append(value)
    return values


def _read_varint(message: memoryview, at: int) -> tuple[int, int]:
    """Read seven bits a byte, lowest first, until a byte below 128; return the number and where it ends."""
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _attribute(name: str, value: Attribute) -> ProtobufMessage:
    message = ProtobufMessage().text(1, name)
    if isinstance(value, int):
        return message.varint(3, value).varint(20, 2)
    if isinstance(value, float):
        return message.fixed32(2, value).varint(20, 1)
    for item in value:
        message.varint(8, item)
    return message.varint(20, 7)


# ---- the graph
#
# The package's file turns its int8 weights into floats at every run and multiplies those. Here the integers are
# multiplied as they are, unrounded; in addition each token's activations are quantized, by a scale of the token's own.
# So a vector does not depend on the texts that share its batch, nor on the padding.
#
# Not quite eight bits: AVX2 without VNNI adds two products of 8 x 8 bits in 16 signed bits and saturates in silence
# (255 * 127 * 2 > 2**15 - 1). Around 96 of 191, one pair in 1.8 million does so, around 128 of 255 one in 24,000
# (counted on LoCoMo turns, adding as AVX2 does); around 64 of 127 none can, but vectors are farther from the
# package's, .995 against .997. A saturated product is off by at most .03 of its norm, .002 in the mean of the worst
# matrix.
#
# A GELU returns nothing below -.17, so that its zero is 16 of 255: nearly all of the eight bits are for the values
# above zero, as long as a step is at least .17 / 16. Large ones are seldom side by side: 1 pair in 10**7 saturates.

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


def integer_model(constants: Mapping[str, Array]) -> ProtobufMessage:
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

    def model(self) -> ProtobufMessage:
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
        """Add the parts that every layer uses: the mask, the shape of a batch, the zero points of its tokens."""
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
        """Add a token's row for attention: float32[batch, sequence, 384]."""
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


# ---- the file

WEIGHTS = Path(__file__).with_name("weights.npz")
"""The four upper layers, trained on questions and the turns that answer them (`tests/train/fit_embedding.py`)."""

SOURCE_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
PREPARED_SHA256 = "fe21fe311959c4172b359e452327b07a735cf3deec8c6e3895af606d3e75fa8a"
"""Of the package's file, and of the prepared one: the preparation is integers and single float operations, so it
gives the same bytes on every machine. Whoever changes the graph changes this and the model's id."""


class NotPrepared(Exception):
    """The file cannot be prepared: other weights, no space, or a result with another hash."""


@dataclass(frozen=True, slots=True)
class Preparation:
    """The preparation of a package's file: the hashes of source and result, and the function from one to the other."""

    source_sha256: str
    prepared_sha256: str
    build: Callable[[memoryview], ProtobufMessage]


MINILM = Preparation(
    SOURCE_SHA256, PREPARED_SHA256, lambda source: integer_model(read_constants(source) | trained(WEIGHTS))
)


def prepare(source: Path, target: Path, preparation: Preparation = MINILM) -> None:
    """Write the prepared model to `target` unless it is there, whole; two processes at once are safe.

    Takes about .5 s and 60 MiB; a file that is there is read once, to compare its hash. Raises NotPrepared.
    """
    try:
        if not (target.exists() and _sha256_of(target) == preparation.prepared_sha256):
            _write(source.read_bytes(), target, preparation)
    except (OSError, MalformedModel) as problem:
        raise NotPrepared(f"the model could not be prepared ({type(problem).__name__}: {problem})") from problem


def _write(source: bytes, target: Path, preparation: Preparation) -> None:
    if hashlib.sha256(source).hexdigest() != preparation.source_sha256:
        raise NotPrepared("the package holds other weights than those this version knows")
    target.parent.mkdir(parents=True, exist_ok=True)
    # Written next to the target and renamed, so that another process never sees a part of it.
    handle, name = tempfile.mkstemp(prefix=target.name, suffix=".tmp", dir=target.parent)
    try:
        digest = hashlib.sha256()
        with os.fdopen(handle, "wb") as file:
            for piece in preparation.build(memoryview(source)).pieces:
                digest.update(piece)
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        if (made := digest.hexdigest()) != preparation.prepared_sha256:
            raise NotPrepared(f"the prepared model has the hash {made}, which this version does not know")
        Path(name).replace(target)
    finally:
        with contextlib.suppress(FileNotFoundError):
            Path(name).unlink()


def trained(path: Path = WEIGHTS) -> dict[str, Array]:
    """Return trained constants, by the names that they have in the package's file. Raises OSError."""
    with np.load(io.BytesIO(path.read_bytes())) as file:
        return {name: file[name] for name in file.files}


def _sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
