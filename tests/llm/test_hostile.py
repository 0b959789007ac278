"""Both clients against servers that are slow, endless, torn, lying or gone."""

from __future__ import annotations

import gzip
import json
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from dreamd.llm.budget import model_for
from dreamd.llm.language_model import LanguageModel, LlmAborted, LlmError, LlmRefused, LlmUnavailable
from dreamd.llm.settings import LlmSettings

from tests.llm.hostile import Misbehaviour, Peer, hostile

SCHEMA = {"type": "object", "properties": {"fact": {"type": "string"}}, "required": ["fact"]}


@dataclass(frozen=True)
class Dialect:
    """How a protocol streams: `piece` wraps a bit of text, `end` says that it is all."""

    provider: str
    kind: str
    path: str
    piece: Callable[[str], bytes]
    end: bytes

    def model(self, url: str, **changes: Any) -> LanguageModel:
        settings = {"provider": self.provider, "model": "tiny", "base_url": url + self.path, "answer_tokens": 64}
        model = model_for(LlmSettings(**settings | changes))
        assert model is not None
        return model


def _ollama_piece(text: str) -> bytes:
    return (
        json.dumps({"model": "tiny", "message": {"role": "assistant", "content": text}, "done": False}).encode() + b"\n"
    )


def _openai_piece(text: str) -> bytes:
    return b"data: " + json.dumps({"choices": [{"delta": {"content": text}, "finish_reason": None}]}).encode() + b"\n\n"


OLLAMA = Dialect(
    "ollama",
    "application/x-ndjson",
    "",
    _ollama_piece,
    json.dumps({"model": "tiny", "message": {"role": "assistant", "content": ""}, "done": True}).encode() + b"\n",
)
OPENAI = Dialect(
    "openai_compatible",
    "text/event-stream",
    "/v1",
    _openai_piece,
    b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n',
)
both = pytest.mark.parametrize("dialect", [OLLAMA, OPENAI], ids=lambda dialect: dialect.provider)


def ask(dialect: Dialect, misbehave: Misbehaviour, deadline_s: float = 10, **changes: Any) -> Any:
    with hostile(misbehave, dialect.kind) as server:
        return dialect.model(server.url, **changes).complete_json("?", SCHEMA, deadline_s).content


def saying(dialect: Dialect, *pieces: str) -> Misbehaviour:
    def say(peer: Peer) -> None:
        peer.head()
        for piece in pieces:
            peer.say(dialect.piece(piece))
        peer.say(dialect.end)
        peer.connection.shutdown(socket.SHUT_WR)

    return say


@both
def test_an_answer_in_pieces_is_put_together(dialect: Dialect) -> None:
    assert ask(dialect, saying(dialect, '{"fa', 'ct": "t', 'ea"}')) == {"fact": "tea"}


@both
@pytest.mark.parametrize(
    "said",
    [
        '{"fact": "te',
        "",
        "tea",
        "[1]",
        '{"fact": 3}',
        '{"fact": null}',
        '{"tea": "x"}',
        "[" * 9000,
        "9" * 6000,
        "\ud83d",
    ],
    ids=["half", "nothing", "words", "array", "number", "null", "other key", "deep", "long number", "half a character"],
)
def test_an_answer_that_does_not_fit_is_refused(dialect: Dialect, said: str) -> None:
    with pytest.raises(LlmRefused):
        ask(dialect, saying(dialect, said))


@both
def test_a_code_fence_around_the_object_is_taken_off(dialect: Dialect) -> None:
    assert ask(dialect, saying(dialect, '```json\n{"fact": "tea"}\n```')) == {"fact": "tea"}


@both
def test_an_endless_stream_is_left(dialect: Dialect) -> None:
    def talk(peer: Peer) -> None:
        peer.head()
        piece = dialect.piece("tea " * 4000)
        while peer.say(piece) and not peer.stop.is_set():
            pass

    with pytest.raises(LlmRefused, match="end"):
        ask(dialect, talk, 30)


@both
def test_an_endless_line_is_left(dialect: Dialect) -> None:
    def talk(peer: Peer) -> None:
        peer.head()
        while peer.say(b"x" * 65536) and not peer.stop.is_set():
            pass

    with pytest.raises(LlmRefused, match="end"):
        ask(dialect, talk, 30)


@both
def test_a_slow_drip_ends_at_the_deadline(dialect: Dialect) -> None:
    def drip(peer: Peer) -> None:
        peer.head()
        while peer.say(dialect.piece("t")) and not peer.stop.wait(0.02):
            pass

    began_s = time.monotonic()
    with pytest.raises(LlmUnavailable, match=r"within 0\.3 s"):
        ask(dialect, drip, 0.3)
    assert time.monotonic() - began_s < 5


@both
def test_silence_ends_at_the_deadline(dialect: Dialect) -> None:
    with pytest.raises(LlmUnavailable, match=r"within 0\.2 s"):
        ask(dialect, lambda peer: None, 0.2)


@both
@pytest.mark.parametrize("cut", [0, 20, 90])
def test_a_server_that_disappears_is_unavailable(dialect: Dialect, cut: int) -> None:
    def leave(peer: Peer) -> None:
        if cut:
            peer.head(b"Content-Length: 5000")
            peer.say(dialect.piece('{"fact": "tea"}')[:cut])
        peer.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.connection.close()

    with pytest.raises(LlmUnavailable):
        ask(dialect, leave)


@both
def test_a_stream_that_ends_before_it_says_so_is_no_answer(dialect: Dialect) -> None:
    def stop_short(peer: Peer) -> None:
        peer.head()
        peer.say(dialect.piece('{"fact": "tea"}'))
        peer.connection.shutdown(socket.SHUT_WR)

    with pytest.raises(LlmUnavailable):
        ask(dialect, stop_short)


@both
@pytest.mark.parametrize(
    "said",
    [
        b"\xff\xfe\x00\x01" * 50 + b"\n",
        b"[1, 2]\n",
        b"data: [1]\n\n",
        b"data: 7\n\n7\n",
        b'{"message": 3}\n',
        b"\x00" * 99,
    ],
    ids=["bytes", "list", "event list", "number", "no message", "zeros"],
)
def test_garbage_is_refused_or_unavailable(dialect: Dialect, said: bytes) -> None:
    def talk(peer: Peer) -> None:
        peer.head()
        peer.say(said)
        peer.connection.shutdown(socket.SHUT_WR)

    with pytest.raises((LlmUnavailable, LlmRefused)):
        ask(dialect, talk)


@both
def test_a_server_that_speaks_no_http_is_unavailable(dialect: Dialect) -> None:
    def talk(peer: Peer) -> None:
        peer.say(b"SSH-2.0-OpenSSH_9.9\r\n\r\n\r\n")

    with pytest.raises(LlmUnavailable):
        ask(dialect, talk)


@both
def test_a_compressed_answer_is_not_unpacked(dialect: Dialect) -> None:
    bomb = gzip.compress(dialect.piece("x" * 50_000_000))

    def talk(peer: Peer) -> None:
        peer.head(b"Content-Encoding: gzip", b"Content-Length: %d" % len(bomb))
        peer.say(bomb)

    with pytest.raises(LlmRefused):
        ask(dialect, talk)


@both
@pytest.mark.parametrize("status", [b"301 Moved", b"307 Temporary", b"401 Unauthorized", b"429 Slow", b"503 Busy"])
def test_error_statuses_are_reported_and_redirects_not_followed(dialect: Dialect, status: bytes) -> None:
    def talk(peer: Peer) -> None:
        peer.say(b"HTTP/1.1 " + status + b"\r\nLocation: http://192.0.2.1/\r\nContent-Length: 0\r\n\r\n")

    with pytest.raises(LlmUnavailable, match=status[:3].decode()):
        ask(dialect, talk)


@both
def test_endless_headers_end_the_call(dialect: Dialect) -> None:
    def talk(peer: Peer) -> None:
        peer.say(b"HTTP/1.1 200 OK\r\n")
        while peer.say(b"X-More: " + b"x" * 8000 + b"\r\n") and not peer.stop.is_set():
            pass

    with pytest.raises(LlmUnavailable):
        ask(dialect, talk)


@both
@pytest.mark.parametrize("talking", [False, True], ids=["before the first word", "in the middle"])
def test_aborting_shuts_the_connection_at_once(dialect: Dialect, talking: bool) -> None:
    begun = threading.Event()

    def talk(peer: Peer) -> None:
        if talking:
            peer.head()
            peer.say(dialect.piece('{"fa'))
        begun.set()

    raised: list[LlmError] = []
    with hostile(talk, dialect.kind) as server:
        model = dialect.model(server.url)

        def call() -> None:
            try:
                model.complete_json("?", SCHEMA, 30)
            except LlmError as error:
                raised.append(error)

        caller = threading.Thread(target=call)
        caller.start()
        assert begun.wait(10)
        model.abort()
        assert server.left.wait(5), "the server still generates"
        caller.join(5)
    assert [type(error) for error in raised] == [LlmAborted]


@both
def test_aborting_nothing_does_nothing(dialect: Dialect) -> None:
    with hostile(saying(dialect, '{"fact": "tea"}'), dialect.kind) as server:
        model = dialect.model(server.url)
        model.abort()
        assert model.complete_json("?", SCHEMA, 5).content == {"fact": "tea"}
        model.abort()
        assert model.complete_json("?", SCHEMA, 5).content == {"fact": "tea"}
