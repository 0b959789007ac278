"""The harness that compares memories: its server, its processes and its table, with a stand-in for a peer."""

from __future__ import annotations

import base64
import json
import re
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dreamd.store.embedding.embedding import StubEmbedder

from tests.stand_ins import STAND_INS

from ..datasets import Dataset, Question, locomo
from . import __main__ as command
from . import measuring
from .embedding_server import EmbeddingServer
from .measuring import Figures, mean_scores, measured
from .memories import Turn, turns_of
from .process import PeerFailed, PeerProcess
from .roster import HERE, PEERS, Peer

STAND_IN = Peer("stand-in", "stand_in", "common words")
TURN = Turn("D1:1", "talk", "talk-1", "Ann", "The cat sat.", "2026-11-23T10:00:00+00:00")


class Counted(StubEmbedder):
    """Counts the texts that it embedded."""

    def __init__(self) -> None:
        super().__init__()
        self.passages = 0

    def embed_passages(self, texts: Any) -> Any:
        self.passages += len(texts)
        return super().embed_passages(texts)


def post(server: EmbeddingServer, path: str, asked: dict[str, Any]) -> Any:
    with urllib.request.urlopen(server.url + path, json.dumps(asked).encode(), timeout=10) as answer:
        return json.load(answer)


def test_each_protocol_gives_the_same_vector(tmp_path: Path) -> None:
    with EmbeddingServer(StubEmbedder(), tmp_path / "kept.db") as server:
        openai = post(server, "/v1/embeddings", {"input": "a cat", "encoding_format": "float"})["data"][0]["embedding"]
        packed = post(server, "/v1/embeddings", {"input": ["a cat"], "encoding_format": "base64"})["data"][0][
            "embedding"
        ]
        ollama = post(server, "/api/embed", {"input": ["a cat"], "model": "any"})["embeddings"][0]
        plain = post(server, "/embed", {"texts": ["a cat"], "input_type": "query"})
    wanted = StubEmbedder().embed_query("a cat")
    assert np.allclose(openai, wanted)
    assert np.allclose(np.frombuffer(base64.b64decode(packed), np.float32), wanted)
    assert np.allclose(ollama, wanted)
    assert np.allclose(plain["vectors"][0], wanted)
    assert plain["dimensions"] == len(wanted)


def test_turns_are_embedded_once_and_questions_each_time(tmp_path: Path) -> None:
    embedder = Counted()
    with EmbeddingServer(embedder, tmp_path / "kept.db") as server:
        server.embed(["one", "two", "one"])
        server.embed(["two"])
        assert embedder.passages == 2
        server.keeps = False
        before = server.seconds
        server.embed(["two"])
        assert embedder.passages == 2
        assert server.seconds > before
    with EmbeddingServer(embedder, tmp_path / "kept.db") as server:
        server.embed(["one"])
    assert embedder.passages == 2


def test_what_asks_for_a_language_model_is_refused_and_noted(tmp_path: Path) -> None:
    with EmbeddingServer(StubEmbedder(), tmp_path / "kept.db") as server:
        with pytest.raises(urllib.error.HTTPError) as refused:
            post(server, "/v1/chat/completions", {"messages": []})
        refused.value.close()
        assert server.refused == ["/v1/chat/completions"]


def test_a_peer_answers_from_its_own_process(tmp_path: Path) -> None:
    with EmbeddingServer(StubEmbedder(), tmp_path / "kept.db") as server, stand_in(tmp_path, server) as peer:
        peer.open()
        other = Turn("D1:2", "talk", "talk-1", "Ben", "A dog ran.", "")
        elsewhere = Turn("D1:3", "other", "other-1", "Ben", "The cat sat here too.", "")
        peer.add([TURN, other, elsewhere], timeout_s=10)
        found, seconds = peer.search("talk", "where was the cat", 10)
        assert found == ["D1:1", "D1:2"]
        assert seconds > 0
        assert peer.resident_mib() > 1


def test_a_peer_that_fails_says_why(tmp_path: Path) -> None:
    with (
        EmbeddingServer(StubEmbedder(), tmp_path / "kept.db") as server,
        stand_in(tmp_path, server) as peer,
        pytest.raises(PeerFailed, match="not opened"),
    ):
        peer.add([TURN], timeout_s=10)


def stand_in(tmp_path: Path, server: EmbeddingServer) -> PeerProcess:
    return PeerProcess(STAND_IN, Path(sys.executable), tmp_path / "peer", server.url, server.model, 384)


def test_turns_are_those_of_the_import() -> None:
    data = locomo(STAND_INS / "locomo" / "dev.json", STAND_INS)
    turns = list(turns_of(data))
    assert len({(turn.channel, turn.id) for turn in turns}) == len(turns)
    asked = {(question.channel, turn) for question in data.questions for turn in question.gold}
    assert asked <= {(turn.channel, turn.id) for turn in turns}


def figures() -> tuple[Dataset, Figures]:
    data = Dataset(
        "Two",
        (),
        "locomo",
        (
            Question("a", frozenset({"D1:1"}), "single-hop", "", "talk"),
            Question("b", frozenset({"D1:1", "D1:2"}), "multi-hop", "", "talk"),
        ),
    )
    found = [["D1:9", "D1:1"], [f"D2:{number}" for number in range(6)] + ["D1:2"]]
    return data, Figures("dreamd", "", 100.0, 50.0, found, [0.010, 0.020], [0.004, 0.004])


def test_scores_and_times_are_those_of_the_questions() -> None:
    data, ours = figures()
    assert mean_scores(ours, data) == (0.5, 0.75, 0.5, 1.0)
    assert ours.p50_ms() == pytest.approx(15)
    assert ours.p50_ms(with_embedding=False) == pytest.approx(11)


def test_the_table_has_a_reason_for_who_was_not_measured() -> None:
    data, ours = figures()
    peers = {STAND_IN.package: STAND_IN}
    lines = list(command.table(data, [ours, Figures("stand-in", "not installed")], peers))
    assert "| dreamd |" in lines[4]
    assert "| 0.500 | 0.750 | 0.500 | 1.000 |" in lines[4]
    assert "skipped: not installed" in lines[5]
    assert len({line.count("|") for line in lines[2:]}) == 1


def test_every_peer_is_pinned_by_number_and_no_host_is_named() -> None:
    assert {peer.pins.name for peer in PEERS} == {path.name for path in (HERE / "packages").iterdir()}
    for peer in PEERS:
        lines = peer.pins.read_text().splitlines()
        assert all(re.fullmatch(r"[\w.\[\]-]+==[\w.+!]+( ; .*)?", line) for line in lines), peer
        assert any(line.startswith(f"{peer.package}==") for line in lines)
        assert (HERE / "runners" / f"{peer.runner}_runner.py").is_file()


@pytest.mark.nightly
@pytest.mark.system
@pytest.mark.timeout(300)
def test_both_sides_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "python_of", lambda _: Path(sys.executable))
    data = locomo(STAND_INS / "locomo" / "dev.json", tmp_path, 1)
    ours, theirs = measured(data, [STAND_IN], StubEmbedder(), tmp_path, tmp_path / "kept.db")
    for side in (ours, theirs):
        assert not side.problem
        assert len(side.found) == len(side.seconds) == len(data.questions)
        assert side.turns_per_s > 0
        assert side.resident_mib > 0
    assert mean_scores(ours, data)[1] > 0
