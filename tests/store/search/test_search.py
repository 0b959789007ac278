"""Ranking: units, fusion, and what an envelope holds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.filters import Condition
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.model import Level, NewTurn, SessionHead
from dreamd.store.search.gathering import node_of_chunk
from dreamd.store.search.question import Question
from dreamd.store.settings import SearchSettings, StoreSettings
from dreamd.store.text.chunking import estimate_tokens
from dreamd.store.text.words import query_terms

AT = datetime(2026, 11, 1, 9, 0, tzinfo=UTC)


def inside(envelope: str) -> str:
    """Return the lines of an envelope without their fence."""
    return envelope.partition(">")[2].removesuffix("</dreamd-memory>")


def talk(store: MemoryStore, *texts: str) -> None:
    turns = [NewTurn("Ann", text, AT + timedelta(minutes=n), str(n)) for n, text in enumerate(texts)]
    store.observe(SessionHead("s1", "shop", started_at=AT), turns).result()


def write_fact(store: MemoryStore, name: str, text: str, *turns: str) -> None:
    folder = store.paths.vault / "facts"
    folder.mkdir(exist_ok=True)
    sources = "".join(f'  - {{ id: t{n}, resource: /x.md, title: "{turn}" }}\n' for n, turn in enumerate(turns, 1))
    (folder / f"{name}.md").write_text(
        f"---\ntype: Fact\ntitle: {name}\nnode_id: {name}\nlevel: L1\nkind: fact\nchannel: shop\n"
        f"sources:\n{sources}---\n\n{text}\n"
    )
    store.reconcile()


@pytest.mark.parametrize(
    ("channel", "expected"),
    [(None, ("_global",)), ("shop", ("_global", "shop")), ("_global", ("_global",)), ("*", None)],
)
def test_a_question_reaches_its_channel_and_the_global_one(
    channel: str | None, expected: tuple[str, ...] | None
) -> None:
    where = Question(text="x", channel=channel).conditions
    conditions = {one.field: one for one in where if isinstance(one, Condition)}
    assert conditions.get("channel") == (Condition("channel", "in", expected) if expected else None)
    assert conditions["live"].values == (1,)
    assert conditions["level"].values == ("L0", "L1")


def test_a_chunk_names_its_node() -> None:
    assert node_of_chunk("s1#4#chunk-2") == "s1#4"
    assert node_of_chunk("s1#4") == "s1#4"


def test_question_words_find_nothing_unless_there_is_nothing_else() -> None:
    assert query_terms("What did Ann's dog eat in src/app.py?") == ["ann's", "dog", "eat", "src/app.py"]
    assert query_terms("who are you") == ["who", "are", "you"]


def test_a_fact_and_its_turn_are_one_hit(store: MemoryStore) -> None:
    talk(store, "Yesterday I bought a red kayak from Otto", "Lovely weather")
    write_fact(store, "kayak", "Ann bought a red kayak from Otto.", "s1#1")
    store.settle(60)
    hits = store.recall("From whom is the red kayak?", channel="shop").hits
    assert [hit.node_id for hit in hits][:1] == ["kayak"]
    assert [e.node_id for e in hits[0].evidence] == ["s1#1"]
    assert "s1#1" not in {hit.node_id for hit in hits}
    raw = store.recall("From whom is the red kayak?", channel="shop", levels=(Level.SESSION,)).hits
    assert raw[0].node_id == "s1#1"


def test_slots_of_one_day_are_grouped_under_it(store: MemoryStore) -> None:
    for session, day in (("s1", 1), ("s2", 3), ("s3", 1)):
        turn = NewTurn("Ann", f"The kayak {session} is red", AT + timedelta(days=day), session)
        store.observe(SessionHead(session, "shop", started_at=AT), [turn]).result()
    lines = inside(store.context("kayak red", channel="shop", budget_tokens=100).text).splitlines()
    heads = [line.partition(":")[0] for line in lines]
    assert sorted(heads) == ["- Ann", "2 Nov 2026, Ann", "4 Nov 2026, Ann"]
    assert heads.index("- Ann") == heads.index("2 Nov 2026, Ann") + 1


def test_an_envelope_keeps_its_budget_and_names_its_turns(store: MemoryStore) -> None:
    talk(store, *(f"Boat {n} has a hull of oak and a sail number {n * 7}" for n in range(60)))
    for budget in (20, 100, 400):
        envelope = store.context("hull of oak", channel="shop", budget_tokens=budget)
        assert sum(slot.tokens for slot in envelope.slots) <= envelope.tokens <= budget
        assert estimate_tokens(envelope.text) <= budget
        assert all(slot.evidence for slot in envelope.slots)
    assert envelope.slots


def test_a_chunk_without_a_vector_does_not_lose_to_one_with_a_vector(store: MemoryStore) -> None:
    for n in range(15):
        store.remember(f"Writer 1 counted to {n}.", channel="shop").result()
    store.rebuild()  # embeds them
    store.operations.queue.stop()
    late = store.remember("Writer 2 counted to 19.", channel="shop").result()
    assert store.recall("Writer 2 counted to 19.", channel="shop").hits[0].node_id == late


def test_the_turns_of_the_asking_session_are_left_out(store: MemoryStore) -> None:
    talk(store, "The anchor weighs nine kilos")
    assert store.context("anchor", channel="shop", session="s1").slots == ()
    assert store.context("anchor", channel="shop").slots
    assert store.recall("anchor", channel="shop", session="s1").hits == []
    assert store.recall("anchor", channel="shop", session="s2").hits
    assert store.recall("anchor", channel="shop").hits
    assert store.elsewhere("anchor", session="s1") == []


def test_what_took_a_place_in_the_asking_session_is_named_and_not_told(store: MemoryStore) -> None:
    talk(store, "The anchor weighs ten kilos now")
    head = SessionHead("s2", "shop", started_at=AT)
    store.observe(head, [NewTurn("Ann", "The anchor weighs nine kilos", AT - timedelta(days=9), "1")]).result()
    write_fact(store, "old", "The anchor weighs nine kilos", "s2#1")
    write_fact(store, "new", "The anchor weighs ten kilos now", "s1#1")
    store.link("new", "old", "Supersedes")
    assert [hit.node_id for hit in store.recall("anchor weighs", channel="shop").hits] == ["new", "s2#1"]
    (hit,) = store.recall("anchor weighs", channel="shop", session="s1").hits
    assert (hit.node_id, hit.superseded_by) == ("s2#1", ("s1#1",))


def test_both_arms_find_and_are_one_ranking(store: MemoryStore) -> None:
    node_id = store.remember("The red kayak is from Otto.", channel="shop").result()
    near = store.remember("Otto's boat shed is open.", channel="shop").result()
    store.rebuild()  # embeds them
    candidates = store.recall("red kayak", channel="shop", explain=True).trace["candidates"]
    assert [(one["unit"], one["ranks"].keys()) for one in candidates] == [
        (node_id, {"keyword", "vector"}),
        (near, {"vector"}),
    ]
    assert candidates[0]["score"] > candidates[1]["score"]


@pytest.mark.parametrize("settings", [SearchSettings(scorer="none"), SearchSettings(fusion="rrf")])
def test_without_the_scorer_an_assistants_words_count_less(paths: StorePaths, settings: SearchSettings) -> None:
    plain = MemoryStore.open(paths, StoreSettings(search=settings), StubEmbedder(), lambda: AT)
    for session, role in (("s1", "assistant"), ("s2", "user")):
        turn = NewTurn(role, "The red kayak is from Otto.", AT)
        plain.observe(SessionHead(session, "shop", started_at=AT), [turn]).result()
    plain.rebuild()
    said, repeated = plain.recall("From whom is the red kayak?", channel="shop").hits
    plain.close()
    assert (said.node_id, repeated.node_id) == ("s2#1", "s1#1")
    assert said.score > repeated.score
