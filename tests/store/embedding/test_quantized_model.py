from __future__ import annotations

import numpy as np
import pytest
from dreamd.store.embedding.quantized_model import (
    FLOAT,
    Array,
    GraphWriter,
    MalformedModel,
    ProtobufMessage,
    read_constants,
    tensor,
    value_info,
)
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

ARRAYS = hnp.arrays(
    st.sampled_from([np.float32, np.int8, np.uint8, np.int32, np.int64]), hnp.array_shapes(min_dims=0, max_side=9)
)


def written(message: ProtobufMessage) -> bytes:
    joined = b"".join(message.pieces)
    assert len(joined) == message.size_bytes
    return joined


def test_a_tensor_is_written_as_the_docstring_says() -> None:
    bytes_of_it = written(tensor("x", np.zeros((2, 384), np.int8)))
    assert bytes_of_it.startswith(bytes.fromhex("08 02 08 80 03 10 03 42 01") + b"x")
    assert len(bytes_of_it) == 10 + 3 + 768


@given(st.dictionaries(st.text(max_size=9), ARRAYS, max_size=5))
def test_constants_come_back_as_they_were(constants: dict[str, Array]) -> None:
    graph = GraphWriter()
    for name, value in constants.items():
        assert graph.constant(name, value) == name
    graph.node("Relu", ["x"], "y", axis=-1, epsilon=1e-12, perm=[0, 2, 1])
    model = written(graph.model([value_info("x", FLOAT, ["n", 4])], [value_info("y", FLOAT, ["n", 4])], {"": 18}))
    read = read_constants(memoryview(model))
    assert list(read) == list(constants)
    for name, value in constants.items():
        assert (read[name].dtype, read[name].shape) == (value.dtype, value.shape)
        assert read[name].tobytes() == value.tobytes()


@pytest.mark.parametrize(
    "broken", [b"", b"\x3a\x7f", b"\x3a", b"\x0f", b"no model at all", b"\x3a\x04\x2a\x02\x10\x63"]
)
def test_what_is_no_model_is_refused(broken: bytes) -> None:
    with pytest.raises(MalformedModel):
        read_constants(memoryview(broken))
