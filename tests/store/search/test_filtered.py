"""A filter narrows what recall, context and list answer with, and never widens the channels."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from dreamd.ipc.filter_params import BoundedFilter
from dreamd.store.filters import OWN_FIELDS, Filter
from dreamd.store.memory import MemoryStore
from dreamd.store.model import Kind, NewTurn, SessionHead

QUESTION = "which database do we use"
SAID = {
    1: ("user", "We use Postgres as the database from now on."),
    2: ("assistant", "I set up the database that we use with Postgres."),
    9: ("user", "The database that we use in the tests is SQLite."),
}
FACT = "We use Postgres as the database from now on."


@pytest.fixture
def filled(store: MemoryStore) -> MemoryStore:
    """Give a store with two sessions, a decision drawn from a turn, a note of another channel and a global one."""
    for agent, day in (("claude-code", 1), ("codex", 9)):
        head = SessionHead(f"s-{agent}", "shop", agent_id=agent, task_id=f"T-{day}", user_id="ines", started_at=at(day))
        turns = [NewTurn(role, text, at(when)) for when, (role, text) in SAID.items() if when // 9 == day // 9]
        store.observe(head, turns).result()
    assert store.settle(30)  # a fact takes the agent of its session, which must be there
    folder = store.paths.vault / "facts"
    folder.mkdir(exist_ok=True)
    (folder / "episode.md").write_text(
        "---\ntype: Scenario\ntitle: Postgres\nnode_id: episode\nlevel: L2\nkind: scenario\nchannel: shop\n---\n\n"
        "The database that we use was chosen in an hour.\n"
    )
    (folder / "decision.md").write_text(
        "---\ntype: Decision\ntitle: Postgres\nnode_id: decision\nlevel: L1\nkind: decision\nchannel: shop\n"
        "tags: [DB, hosting]\nabout: [Postgres, Shop]\nsaid_by: user\nsaid_at: 2026-11-01T12:00:00+00:00\n"
        'sources:\n  - {id: t1, resource: /x.md, title: "s-claude-code#1"}\n---\n\n' + FACT + "\n"
    )
    store.reconcile()
    store.remember(
        "The database that we use in the harbour is Oracle.", channel="harbour", kind=Kind.DECISION, tags=["db"]
    ).result()
    store.remember(
        "A database needs a backup before we use it.", channel="_global", kind=Kind.PROCEDURE, tags=["db"]
    ).result()
    assert store.settle(30)
    return store


def at(day: int) -> datetime:
    return datetime(2026, 11, day, 12, tzinfo=UTC)


def where(**given: Any) -> Filter:
    return BoundedFilter.model_validate(given).normalised()


def found(store: MemoryStore, channel: str = "shop", **given: Any) -> set[str]:
    return {hit.node_id for hit in store.recall(QUESTION, channel=channel, limit=50, where=where(**given)).hits}


def ids(store: MemoryStore, words: str) -> str:
    return next(hit.node_id for hit in store.recall(words, channel="*").hits if hit.text.startswith(words))


TURNS = ("s-claude-code#1", "s-claude-code#2", "s-codex#1")

CASES: list[tuple[dict[str, Any], Sequence[str]]] = [
    ({"field": "kind", "eq": "decision"}, ["decision"]),
    ({"field": "kind", "in": ["turn"]}, TURNS),
    ({"field": "level", "eq": "L0"}, TURNS),
    ({"field": "level", "eq": "L2"}, ["episode"]),
    ({"field": "kind", "in": ["scenario", "decision"]}, ["episode", "decision"]),
    ({"field": "level", "eq": "L3"}, []),
    ({"field": "agent", "eq": "codex"}, ["s-codex#1"]),
    ({"field": "session", "eq": "s-codex"}, ["s-codex#1"]),
    ({"field": "task", "in": ["T-9"]}, ["s-codex#1"]),
    ({"field": "tags", "eq": "hosting"}, ["decision"]),
    ({"field": "tags", "eq": "db"}, ["decision", "global"]),
    ({"field": "entity", "eq": "postgres"}, ["decision"]),
    ({"field": "entity", "eq": "user"}, []),
    ({"field": "channel", "eq": "harbour"}, []),
    ({"field": "channel", "in": ["_global", "harbour"]}, ["global"]),
    ({"field": "time", "range": {"gte": "2026-11-02", "lt": "2026-11-10"}}, ["s-claude-code#2", "s-codex#1"]),
    ({"must_not": [{"field": "kind", "in": ["turn", "procedure"]}]}, ["decision"]),
    ({"must": [{"field": "user", "eq": "ines"}, {"field": "kind", "eq": "decision"}]}, ["decision"]),
    ({"should": [{"field": "agent", "eq": "codex"}, {"field": "tags", "eq": "hosting"}]}, ["s-codex#1", "decision"]),
    ({"field": "user", "exists": False}, ["global"]),
]


CASE = pytest.mark.parametrize(("given", "expected"), CASES)


@CASE
def test_a_filter_lets_through_what_it_says(
    filled: MemoryStore, given: dict[str, Any], expected: Sequence[str]
) -> None:
    names = {"global": ids(filled, "A database needs")}
    assert found(filled, **given) == {names.get(name, name) for name in expected}


@CASE
def test_an_envelope_holds_nothing_else(filled: MemoryStore, given: dict[str, Any], expected: Sequence[str]) -> None:
    envelope = filled.context(QUESTION, channel="shop", budget_tokens=4000, where=where(**given))
    names = {"global": ids(filled, "A database needs")}
    told = {names.get(name, name) for name in expected}
    told |= {"decision"} if "s-claude-code#1" in told and given.get("field") not in OWN_FIELDS else set()
    assert {slot.node_id for slot in envelope.slots} <= told


def test_a_turn_is_shown_by_its_fact_only_if_the_fact_passes_too(filled: MemoryStore) -> None:
    assert "decision" in found(filled, field="agent", eq="claude-code")  # the fact has the agent of its session
    assert "decision" not in found(filled, field="kind", eq="turn")


def test_what_took_a_place_is_named_and_is_a_hit_only_if_it_passes_too(filled: MemoryStore) -> None:
    later = "The database that we use is MariaDB by now."
    (filled.paths.vault / "facts" / "newer.md").write_text(
        "---\ntype: Decision\ntitle: MariaDB\nnode_id: newer\nlevel: L1\nkind: decision\nchannel: shop\n"
        f"said_at: 2026-11-15T12:00:00+00:00\nsupersedes: [decision]\n---\n\n{later}\n"
    )
    old = filled.paths.vault / "facts" / "decision.md"
    old.write_text(old.read_text().replace("tags:", "superseded_by: newer\ntags:"))
    filled.reconcile()
    asked = {"channel": "shop", "include_archived": True, "limit": 50}
    narrow = filled.recall(QUESTION, where=where(field="tags", eq="hosting"), **asked).hits  # type: ignore[arg-type]
    assert [(hit.node_id, hit.newer) for hit in narrow] == [("decision", ("newer",))]
    wide = filled.recall(QUESTION, where=where(field="kind", eq="decision"), **asked).hits  # type: ignore[arg-type]
    assert {hit.node_id for hit in wide} == {"decision", "newer"}


def test_a_list_is_filtered_as_a_search_is(filled: MemoryStore) -> None:
    listed = filled.list(where=where(field="tags", eq="DB"))
    assert sorted(memory.channel for memory in listed) == ["_global", "harbour", "shop"]
    assert [
        memory.node_id for memory in filled.list(channel="shop", where=where(field="kind", eq="turn"), limit=2)
    ] == [
        "s-codex#1",
        "s-claude-code#2",
    ]
    assert [memory.node_id for memory in filled.list(where=where(field="agent", eq="codex"))] == ["s-codex"]


def test_a_filtered_question_is_not_learned_from(filled: MemoryStore) -> None:
    before = len(filled.ledger.probes())
    assert filled.recall(QUESTION, channel="shop", where=where(field="kind", eq="decision")).hits
    assert filled.context(QUESTION, channel="shop", where=where(field="kind", eq="decision")).slots
    filled.settle()
    assert len(filled.ledger.probes()) == before


def test_an_appended_turn_has_the_agent_of_its_session(filled: MemoryStore) -> None:
    head = SessionHead("s-codex", "shop")
    filled.observe(head, [NewTurn("Ines", "The database is backed up at noon.", at(12))]).result()
    assert "s-codex#2" in found(filled, field="agent", eq="codex")
    assert found(filled, field="entity", eq="INES") == {"s-codex#2"}


def test_a_remembered_statement_is_of_what_it_names(store: MemoryStore) -> None:
    named = store.remember("Berta's dog eats what Ines Vogel cooks.", channel="shop").result()
    store.remember("The dog sleeps under the bench.", channel="shop").result()
    for entity in ("berta", "ines vogel"):
        assert [memory.node_id for memory in store.list(where=where(field="entity", eq=entity))] == [named]
        (hit,) = store.recall("What does the dog eat?", channel="shop", where=where(field="entity", eq=entity)).hits
        assert hit.node_id == named


def test_a_document_that_is_not_searched_stays_out(filled: MemoryStore) -> None:
    filled.put_document(["notes"], "one", "The database that we use is a secret one.", channel="shop", searched=False)
    filled.put_document(["notes"], "two", "The database that we use is an open one.", channel="shop")
    filled.settle()
    documents = {memory.node_id for memory in filled.list(where=where(field="kind", eq="document"))}
    assert len(documents) == 2
    assert len(found(filled, field="level", eq="L0") & documents) == 1
    assert len(found(filled, field="kind", eq="document") & documents) == 1
