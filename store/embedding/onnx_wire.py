"""The few messages of ONNX that a model file is read from and written in, without the `onnx` package.

An ONNX file is one protobuf message (`onnx.proto` of ONNX 1.18). A message is a run of fields; a field is a key,
`number << 3 | wire type`, and a value: a varint (wire type 0), four bytes (5), or a length and so many bytes (2), which
is also how a nested message stands. `dims: [2, 384]` of a tensor, field 1, is so `08 02 08 80 03`. The writer puts
fields in the order of its calls and nothing else, so the same calls give the same bytes everywhere.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

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


class Message:
    """A message that is being written: pieces, since weights are not copied, and their size in bytes."""

    def __init__(self) -> None:
        self.pieces: list[bytes | memoryview] = []
        self.size_bytes = 0

    def varint(self, number: int, value: int) -> Message:
        """Add an integer, not negative or of 64 bits."""
        return self._add(_varint(number << 3 | VARINT) + _varint(value & (2**64 - 1)))

    def fixed32(self, number: int, value: float) -> Message:
        """Add a float."""
        return self._add(_varint(number << 3 | FIXED32) + struct.pack("<f", value))

    def text(self, number: int, value: str) -> Message:
        """Add a string."""
        return self.raw(number, value.encode())

    def raw(self, number: int, value: bytes | memoryview) -> Message:
        """Add bytes."""
        return self._add(_varint(number << 3 | BYTES) + _varint(len(value)))._add(value)

    def message(self, number: int, value: Message) -> Message:
        """Add a nested message, as it is now."""
        self._add(_varint(number << 3 | BYTES) + _varint(value.size_bytes))
        self.pieces += value.pieces
        self.size_bytes += value.size_bytes
        return self

    def _add(self, piece: bytes | memoryview) -> Message:
        self.pieces.append(piece)
        self.size_bytes += len(piece)
        return self


@dataclass
class GraphWriter:
    """Nodes and constants of a graph, in the order in which they are added."""

    _nodes: list[Message] = field(default_factory=list)
    _constants: dict[str, Message] = field(default_factory=dict)

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
        node = Message()
        for given in inputs:
            node.text(1, given)
        node.text(2, name).text(3, f"node_{len(self._nodes)}").text(4, operator)
        for key, value in attributes.items():
            node.message(5, _attribute(key, value))
        self._nodes.append(node.text(7, domain))
        return name

    def model(self, inputs: Sequence[Message], outputs: Sequence[Message], opsets: Mapping[str, int]) -> Message:
        """Return the whole model (`ModelProto`)."""
        graph = Message()
        for node in self._nodes:
            graph.message(1, node)
        graph.text(2, "model")
        for constant in self._constants.values():
            graph.message(5, constant)
        for given in inputs:
            graph.message(11, given)
        for output in outputs:
            graph.message(12, output)
        model = Message().varint(1, IR_VERSION).message(7, graph)
        for domain, version in opsets.items():
            model.message(8, Message().text(1, domain).varint(2, version))
        return model


IR_VERSION = 11
"""Of ONNX 1.18, which has opset 23; ONNX Runtime reads it since 1.22."""


def tensor(name: str, value: Array) -> Message:
    """Return a `TensorProto` over the array's own memory where that is contiguous and little-endian."""
    number = next(number for number, dtype in ELEMENT_TYPES.items() if dtype == value.dtype)
    message = Message()
    for size in value.shape:
        message.varint(1, size)
    contiguous = np.ascontiguousarray(value, ELEMENT_TYPES[number])
    return message.varint(2, number).text(8, name).raw(9, contiguous.reshape(-1).view(np.uint8).data)


def value_info(name: str, element_type: int, shape: Sequence[int | str]) -> Message:
    """Return a `ValueInfoProto`; a size that is a string is open, and named so."""
    sizes = Message()
    for size in shape:
        sizes.message(1, Message().varint(1, size) if isinstance(size, int) else Message().text(2, size))
    kind = Message().varint(1, element_type).message(2, sizes)
    return Message().text(1, name).message(2, Message().message(1, kind))


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
    """Read the fields of a message: its varints, and views of what has a length; numbers of fixed size are left out."""
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


def _attribute(name: str, value: Attribute) -> Message:
    message = Message().text(1, name)
    if isinstance(value, int):
        return message.varint(3, value).varint(20, 2)
    if isinstance(value, float):
        return message.fixed32(2, value).varint(20, 1)
    for item in value:
        message.varint(8, item)
    return message.varint(20, 7)
