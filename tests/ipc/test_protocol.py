from __future__ import annotations

import json
from typing import Any

import pytest
from dreamd.ipc import protocol
from dreamd.ipc.protocol import (
    ANSWER_TOO_LARGE,
    INVALID_PARAMS,
    INVALID_REQUEST,
    MAX_LINE_BYTES,
    PARSE_ERROR,
    Inbox,
    LineBuffer,
    MalformedLine,
    Message,
    Notification,
    Request,
    encode_answer,
    encode_request,
    parse,
)
from hypothesis import given
from hypothesis import strategies as st

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(), children, max_size=4),
    max_leaves=12,
)
ids = st.integers(-(2**63), 2**64 - 1) | st.text(max_size=128)
lines = st.one_of(
    st.binary(max_size=200).map(lambda data: data.replace(b"\n", b" ")),
    json_values.map(lambda value: json.dumps(value).encode()),
    st.fixed_dictionaries(
        {"jsonrpc": st.sampled_from(["2.0", "1.0", 2])},
        optional={"id": json_values, "method": json_values, "params": json_values},
    ).map(lambda value: json.dumps(value).encode()),
)


def take_all(inbox: Inbox, data: bytes) -> list[Message]:
    """Feed bytes and take every message that they complete."""
    inbox.receive(data)
    return [inbox.take() for _ in range(len(inbox))]


def malformed(message: Message) -> MalformedLine:
    assert isinstance(message, MalformedLine)
    return message


@given(ids, st.text(min_size=1, max_size=20), st.dictionaries(st.text(max_size=8), json_values, max_size=4))
def test_a_request_comes_back_as_it_went(request_id: int | str, method: str, params: dict[str, Any]) -> None:
    [message] = take_all(Inbox(), encode_request(request_id, method, params))
    assert message == Request(request_id, method, params)


@given(st.lists(lines, max_size=8), st.lists(st.integers(1, 60), max_size=60))
def test_any_split_of_the_bytes_gives_the_same_messages(sent: list[bytes], cuts: list[int]) -> None:
    data = b"".join(line + b"\n" for line in sent)
    whole = take_all(Inbox(), data)
    buffer, pieces, position = Inbox(), [], 0
    for cut in [*cuts, len(data) + 1]:
        pieces += take_all(buffer, data[position : position + cut])
        position += cut
    assert list(map(repr, pieces)) == list(map(repr, whole))


@given(st.lists(st.binary(max_size=40), max_size=12), st.integers(1, 64))
def test_a_bounded_buffer_holds_its_bound_whatever_comes(pieces: list[bytes], bound: int) -> None:
    buffer = LineBuffer(bound)
    data = b"".join(pieces)
    found = [line for piece in pieces for line in buffer.lines(piece)]
    whole = LineBuffer(bound)
    assert found == whole.lines(data)
    assert buffer.overflowed == whole.overflowed == (max(map(len, data.split(b"\n"))) >= bound)
    assert buffer._held_bytes < bound


@given(st.binary(max_size=300))
def test_no_bytes_crash_it(data: bytes) -> None:
    for message in take_all(Inbox(256), data + b"\n"):
        assert isinstance(message, Request | Notification | MalformedLine)


@given(json_values)
def test_any_answer_is_one_line_of_json(result: Any) -> None:
    line = encode_answer(1, result)
    assert line.count(b"\n") == 1
    assert json.loads(line)["result"] == result


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        (b"{", PARSE_ERROR, "not JSON"),
        (b"\xff\xfe{}", PARSE_ERROR, "not UTF-8: byte 0"),
        (b'\xef\xbb\xbf{"jsonrpc": "2.0"}', PARSE_ERROR, "not JSON"),
        (b"[" * 100_000, PARSE_ERROR, "not JSON"),
        (b"1" * 10_000, PARSE_ERROR, "not JSON"),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "recall", "params": {"limit": NaN}}', PARSE_ERROR, "not JSON"),
        (b"[]", INVALID_REQUEST, "batches"),
        (b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]', INVALID_REQUEST, "batches"),
        (b'"hello"', INVALID_REQUEST, "an object"),
        (b'{"id": 1, "method": "ping"}', INVALID_REQUEST, "jsonrpc"),
        (b'{"jsonrpc": "2.0", "id": 1}', INVALID_REQUEST, "method"),
        (b'{"jsonrpc": "2.0", "id": 1, "method": 7}', INVALID_REQUEST, "method"),
        (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', INVALID_REQUEST, '"id"'),
        (b'{"jsonrpc": "2.0", "id": true, "method": "ping"}', INVALID_REQUEST, '"id"'),
        (b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', INVALID_REQUEST, '"id"'),
        (b'{"jsonrpc": "2.0", "id": {}, "method": "ping"}', INVALID_REQUEST, '"id"'),
        (b'{"jsonrpc": "2.0", "id": "' + b"x" * 129 + b'", "method": "ping"}', INVALID_REQUEST, '"id"'),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1]}', INVALID_PARAMS, "by name"),
    ],
)
def test_a_line_that_is_no_message_is_answered_with_the_reason(line: bytes, code: int, says: str) -> None:
    found = malformed(parse(line))
    assert found.error.code == code
    assert says in str(found.error)
    assert not found.fatal


def test_an_error_carries_the_id_where_it_can_be_read() -> None:
    assert malformed(parse(b'{"jsonrpc": "1.0", "id": 7, "method": "ping"}')).id == 7
    assert malformed(parse(b'{"jsonrpc": "2.0", "id": "a", "method": ""}')).id == "a"


def test_empty_lines_and_carriage_returns_are_no_matter() -> None:
    data = b'\n\r\n  \n{"jsonrpc": "2.0", "id": 1, "method": "ping"}\r\n'
    assert take_all(Inbox(), data) == [Request(1, "ping", {})]


def test_a_message_without_id_is_a_notification() -> None:
    assert parse(b'{"jsonrpc": "2.0", "method": "cancel", "params": {"id": 3}}') == Notification("cancel", {"id": 3})


def test_a_line_of_a_mebibyte_with_its_newline_is_the_longest() -> None:
    head = b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": "'
    longest = head + b"x" * (MAX_LINE_BYTES - len(head) - 4) + b'"}}\n'
    assert len(longest) == MAX_LINE_BYTES
    assert isinstance(take_all(Inbox(), longest)[0], Request)
    [found] = take_all(Inbox(), longest[:-4] + b'x"}}\n')
    assert malformed(found).fatal


def test_a_line_that_never_ends_ends_the_stream_and_is_not_kept() -> None:
    buffer = Inbox()
    ping = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n'
    assert take_all(buffer, ping + b"x" * 1000) == [Request(1, "ping", {})]
    messages: list[Message] = []
    for _ in range(40):
        messages += take_all(buffer, b"x" * 2**16)
    assert [malformed(message).fatal for message in messages] == [True]
    assert take_all(buffer, b"\n" + ping) == []
    assert buffer._buffer._held_bytes == 0


def test_an_answer_too_large_becomes_the_error_that_says_so() -> None:
    answer = json.loads(encode_answer("a", {"text": "x" * MAX_LINE_BYTES}))
    assert answer["id"] == "a"
    assert answer["error"]["code"] == ANSWER_TOO_LARGE
    assert "limit" in answer["error"]["data"]["hint"]


def test_half_a_surrogate_pair_goes_over_the_wire_and_comes_back() -> None:
    assert json.loads(encode_answer(1, "a\ud800b"))["result"] == "a\ud800b"


def test_what_json_cannot_say_is_refused() -> None:
    with pytest.raises(ValueError):
        protocol.encode({"score": float("nan")})
    with pytest.raises(TypeError):
        protocol.encode({"at": object()})
