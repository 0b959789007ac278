"""No answer names, or tells a word of, a memory of a channel that was not asked for."""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from dreamd.store import okf
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.model import GLOBAL_CHANNEL, Level, NewTurn, SessionHead
from dreamd.store.settings import StoreSettings
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.ipc.methods import as_answered

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
CHANNELS = ("red", "blue", GLOBAL_CHANNEL)
NAMES = tuple(f"fact{n}" for n in range(6))
TURNS = tuple(f"{channel}{n}#{m}" for n, channel in enumerate(CHANNELS) for m in (1, 2))
MARK = re.compile(r"\bmark\w+")
ASKED = "Which kettle does the office use now?"

facts = st.fixed_dictionaries(
    {
        "channel": st.sampled_from(CHANNELS),
        "level": st.sampled_from(["L1", "L1", "L1", "L2", "L3"]),
        "sources": st.lists(st.sampled_from([*TURNS, *NAMES]), max_size=2, unique=True),
        "supersedes": st.lists(st.sampled_from(NAMES), max_size=2, unique=True),
        "contradicts": st.lists(st.sampled_from(NAMES), max_size=2, unique=True),
        "superseded_by": st.none() | st.sampled_from(NAMES),
        "relates": st.lists(st.sampled_from(NAMES), max_size=1),
        "valid_to": st.none() | st.just((NOW + timedelta(days=1)).isoformat()),
    }
)


@contextlib.contextmanager
def opened() -> Iterator[MemoryStore]:
    with tempfile.TemporaryDirectory(prefix="dreamd-scope-") as folder:
        root = Path(folder)
        paths = StorePaths(root / "vault", root / "l.db", root / "i.db", root / "e.db", root / "runs")
        store = MemoryStore.open(paths, StoreSettings(probes=False), StubEmbedder(), lambda: NOW)
        try:
            yield store
        finally:
            store.close()


def fill(store: MemoryStore, written: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Write sessions and files; the channel of every node."""
    channels: dict[str, str] = {}
    for n, channel in enumerate(CHANNELS):
        session = f"{channel}{n}"
        turns = [NewTurn("user", f"The office kettle mark{channel.strip('_')}{n}x{m} boils.", NOW) for m in (1, 2)]
        store.observe(SessionHead(session, channel), turns).result()
        channels |= {session: channel, f"{session}#1": channel, f"{session}#2": channel}
    for name, meta in zip(NAMES, written, strict=False):
        sources = [{"id": f"t{n}", "resource": "x", "title": title} for n, title in enumerate(meta["sources"], 1)]
        relates = [{"title": other, "weight": 1} for other in meta["relates"]]
        head = {"type": "Fact", "node_id": name, "generated": {"at": NOW.isoformat()}} | meta
        head |= {"sources": sources, "relates": relates}
        head = {key: value for key, value in head.items() if value}
        path = store.paths.vault / "facts" / f"{name}.md"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(okf.render(head, f"\nThe office kettle of mark{name} is used now.\n"))
        channels[name] = meta["channel"]
    store.settle()
    store.reconcile()
    return channels


def names_in(answer: Any, known: dict[str, str]) -> set[str]:
    """Every known node id in an answer, and the nodes whose marks are in its texts."""
    if isinstance(answer, dict):
        return set().union(*(names_in(value, known) for value in answer.values()))
    if isinstance(answer, list):
        return set().union(*(names_in(value, known) for value in answer))
    if not isinstance(answer, str):
        return set()
    marks = {mark.removeprefix("mark") for mark in MARK.findall(answer)}
    told = {f"{mark[:-2]}#{mark[-1]}" if "x" in mark else mark for mark in marks}
    told = {f"_{name}" if name.startswith("global") else name for name in told}
    assert told <= known.keys()
    return told | {answer.partition("#chunk-")[0]} & known.keys()


@settings(max_examples=examples(80), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    written=st.lists(facts, max_size=len(NAMES)),
    channel=st.sampled_from([None, *CHANNELS, "*"]),
    levels=st.lists(st.sampled_from(list(Level)), max_size=2, unique=True),
    as_of=st.none() | st.just(NOW + timedelta(hours=1)),
    archived=st.booleans(),
)
def test_no_answer_names_a_memory_of_a_channel_that_was_not_asked_for(
    written: list[dict[str, Any]],
    channel: str | None,
    levels: list[Level],
    as_of: datetime | None,
    archived: bool,
) -> None:
    with opened() as store:
        known = fill(store, written)
        asked = set(CHANNELS) if channel == "*" else {channel or GLOBAL_CHANNEL, GLOBAL_CHANNEL}
        recalled = store.recall(
            ASKED, limit=50, channel=channel, levels=levels, as_of=as_of, include_archived=archived, explain=True
        )
        envelope = store.context(ASKED, channel=channel, budget_tokens=5000)
        for answer in (as_answered(recalled), as_answered(envelope)):
            assert {known[name] for name in names_in(answer, known)} <= asked
        for name in known:
            shown = as_answered(store.show(name, wanted=False))
            assert {known[other] for other in names_in(shown, known)} <= {known[name], GLOBAL_CHANNEL}


@pytest.mark.parametrize("channel", [None, "blue"])
def test_a_fact_is_found_in_its_channel_though_its_turn_is_in_another(channel: str | None) -> None:
    fact = {
        "channel": GLOBAL_CHANNEL,
        "level": "L1",
        "sources": ["red0#1"],
        "supersedes": ["fact1"],
        "contradicts": [],
        "superseded_by": None,
        "relates": [],
        "valid_to": None,
    }
    secret = fact | {"channel": "red", "supersedes": ["fact0"], "sources": []}
    with opened() as store:
        fill(store, [fact, secret])
        hits = store.recall(ASKED, channel=channel, limit=50).hits
        (found,) = [hit for hit in hits if hit.node_id == "fact0"]
        assert (found.evidence, found.contradicts) == ((), ())
        assert not {"fact1", "red0#1"} & {hit.node_id for hit in hits}
        assert {"fact0", "fact1"} & {hit.node_id for hit in store.recall(ASKED, channel="red", limit=50).hits}
