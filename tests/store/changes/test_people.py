"""People and things: one found by its names, the graph in pages, and names merged and split by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from dreamd.store import okf
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.model import (
    Action,
    ActionKind,
    Changeset,
    InvalidInput,
    Kind,
    Level,
    Memory,
    NewTurn,
    NodeId,
    NotFound,
    SessionHead,
)
from dreamd.store.okf.entity_page import EntityPage, EntityRelation, EntityType, RelationType, entity_of, entity_path
from dreamd.store.okf.file import conformance
from dreamd.store.okf.memory_file import body_hash
from dreamd.store.purge.plan import Selection

from tests.store.conftest import NOW

MAY_8, MAY_9 = datetime(2026, 5, 8, tzinfo=UTC), datetime(2026, 5, 9, tzinfo=UTC)
SAID = (
    "Graça owns payments since this week.",
    "graca is on holiday until Monday, ask Gigi.",
    "Tom took over the invoices from Graça.",
)
OWNS = EntityRelation("Graça Moreira", RelationType.OWNS, "payments", "s1#1", SAID[0], MAY_8)
GAVE = EntityRelation("Graça Moreira", RelationType.HANDED_OVER_TO, "Tom", "s1#3", SAID[2], MAY_9, what="invoices")


@pytest.fixture
def told(store: MemoryStore) -> MemoryStore:
    turns = [NewTurn("user", text, MAY_8, f"t{n}") for n, text in enumerate(SAID)]
    store.observe(SessionHead("s1", "shop"), turns).result()
    return store


def keep(store: MemoryStore, *pages: EntityPage, channel: str = "shop") -> list[NodeId]:
    """Apply pages as a dream's run does."""
    made = [_page(page, channel) for page in pages]
    create = [
        Action(kind=ActionKind.CREATE, path=one.path, node_id=one.node_id, stage="entities", reason="", content=data)
        for one in made
        for data in [okf.from_memory(one)]
    ]
    store.apply(Changeset(run_id=f"run-{channel}-{pages[0].name}", actions=tuple(create)))
    return [one.node_id for one in made]


def _page(page: EntityPage, channel: str) -> Memory:
    node_id = okf.fact_id(channel, f"entity {page.keys[0]}")
    return Memory(
        node_id=node_id,
        level=Level.PROFILE,
        kind=Kind.ENTITY,
        title=page.name,
        text=f"# {page.name}",
        channel=channel,
        run="run",
        path=entity_path(page, node_id, channel),
        extra={key: value for key, value in page.as_keys().items() if value is not None},
    )


def graca(names: Sequence[str] = ("Graça", "graca"), turns: Sequence[NodeId] = ("s1#1", "s1#2", "s1#3")) -> EntityPage:
    return EntityPage("Graça Moreira", EntityType.PERSON, tuple(names), (), (OWNS, GAVE), tuple(turns))


def test_a_person_is_found_by_any_name_with_relations_facts_and_mentions(told: MemoryStore) -> None:
    keep(told, graca())
    for name in ("Graça Moreira", "GRACA", "graça", "moreira"):
        found = told.about(name, "shop", 1000)
        assert [one.name for one in found.entities] == ["Graça Moreira"], name
    assert [(one.part, one.evidence) for one in found.lines] == [
        ("relation", ("s1#3",)),
        ("relation", ("s1#1",)),
        ("mention", ("s1#2",)),
    ]
    assert f"Graça Moreira owns payments (since 8 May 2026): “{SAID[0]}” [s1#1]" in found.text
    assert told.about("Graça", "shop", 60).tokens <= 60


def test_a_name_without_a_page_is_answered_by_the_turns_that_say_it(told: MemoryStore) -> None:
    found = told.about("tom", "shop", 1000)
    assert (found.entities, found.relations) == ((), ())
    assert [line.evidence for line in found.lines] == [("s1#3",)]
    assert "Tom took over the invoices" in found.text
    assert "no page yet" in found.text
    assert not told.about("tom", "other", 1000).lines


def test_a_name_that_only_a_note_says_is_answered_by_the_note(told: MemoryStore) -> None:
    note = told.remember("Hedda Lindqvist leads the warehouse team.", channel="shop").result()
    told.remember("The warehouse closes at six.", channel="shop").result()
    found = told.about("hedda lindqvist", "shop", 1000)
    assert [(line.part, line.node_id, line.evidence) for line in found.lines] == [("fact", note, ())]
    assert found.text.startswith("hedda lindqvist (no page yet), named in 1 note\n")
    keep(told, graca())
    kept = told.remember("Graça works from Lisbon on Mondays.", channel="shop").result()
    assert kept in {line.node_id for line in told.about("Graça", "shop", 1000).lines}
    told.forget(note)
    assert not told.about("hedda lindqvist", "shop", 1000).lines


def test_a_longer_name_is_answered_by_the_page_of_the_one_person_who_has_a_part_of_it(told: MemoryStore) -> None:
    keep(told, EntityPage("Tom", EntityType.PERSON, mentions=("s1#3",)))
    assert [one.name for one in told.about("Tom Okafor", "shop", 1000).entities] == ["Tom"]
    keep(told, EntityPage("Ada Okafor", EntityType.PERSON, mentions=("s1#2",)))
    assert not told.about("Tom Okafor", "shop", 1000).entities


def test_a_heading_that_says_a_name_is_no_line(told: MemoryStore) -> None:
    told.observe(SessionHead("s1", "shop"), [NewTurn("user", "## Tom", MAY_9, "t9")]).result()
    assert [line.evidence for line in told.about("tom", "shop", 1000).lines] == [("s1#3",)]


@pytest.mark.parametrize("name", ["Nobody", "???", "took invoices"])
def test_a_name_that_no_turn_says_is_answered_with_nothing(told: MemoryStore, name: str) -> None:
    found = told.about(name, "shop", 1000)
    assert (found.lines, found.text, found.tokens) == ([], "", 0)


def test_a_relation_whose_turn_was_forgotten_is_not_told(told: MemoryStore) -> None:
    keep(told, graca())
    told.forget("s1#1")
    assert "owns payments" not in told.about("Graça", "shop", 1000).text


def test_a_purge_takes_the_relations_and_mentions_of_its_turns(told: MemoryStore, paths: StorePaths) -> None:
    keep(told, graca())
    told.purge(Selection(nodes=("s1#1",)))
    (page,) = (paths.vault / "projects").rglob("people/*.md")
    assert "owns" not in page.read_text().lower()
    assert "s1#1" not in page.read_text()
    assert "invoices" in page.read_text()


def test_pages_of_one_name_in_two_channels_are_one_where_both_are_asked(told: MemoryStore) -> None:
    keep(told, graca())
    keep(told, EntityPage("Graça Moreira", EntityType.PERSON), channel="garden")
    keep(told, EntityPage("Graça", EntityType.PROJECT), channel="kitchen")
    found = told.about("Graça Moreira", "*", 1000)
    assert {one.channel for one in found.entities} == {"shop", "garden"}
    assert told.about("Graça", "*", 1000).others == ("Graça (project)",)
    assert [one.channel for one in told.about("Graça Moreira", "garden", 1000).entities] == ["garden"]


def test_the_graph_comes_in_pages(told: MemoryStore) -> None:
    keep(told, graca(), EntityPage("Tom", EntityType.PERSON, mentions=("s1#3",)))
    page = told.entities("shop", limit=1)
    assert ([one.name for one in page.entities], page.total, page.next) == (["Graça Moreira"], 2, 1)
    assert {(one.relation, one.object) for one in page.relations} == {("OWNS", "payments"), ("HANDED_OVER_TO", "Tom")}
    assert next(one for one in page.relations if one.object == "Tom").object_id is not None
    rest = told.entities("shop", limit=1, offset=1)
    assert ([one.name for one in rest.entities], rest.next) == (["Tom"], None)
    assert told.entities("shop", "tool").total == 0


def test_a_walk_follows_relations_and_other_names(told: MemoryStore) -> None:
    keep(told, graca(), EntityPage("Tom", EntityType.PERSON, ("Tommy",)))
    walked = told.core.opened.graph.walk("tommy", 2, {"shop"})
    assert walked == {"tommy": 0, "tom": 0, "graca moreira": 1, "graca": 1, "payments": 2}


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*.md")}


def test_a_denied_relation_goes_from_keys_and_text_and_is_undone_byte_for_byte(
    told: MemoryStore, paths: StorePaths
) -> None:
    labels = okf.source_ids((OWNS.turn, GAVE.turn))
    lines = [f"- {one.head}: “{one.words}” [^{labels[one.turn]}]" for one in (OWNS, GAVE)]
    notes = [f"[^{label}]: [8 May 2026](/sessions/x.md)" for label in labels.values()]
    text = "\n".join(["# Graça Moreira", "", *lines, "", *notes])
    page = replace(graca(), relations=(OWNS, GAVE))
    memory = replace(_page(page, "shop"), text=text, sources=(OWNS.turn, GAVE.turn), description=page.description)
    memory = replace(memory, extra={**memory.extra, "body_sha256": body_hash(text)})
    data = okf.from_memory(memory)
    action = Action(
        kind=ActionKind.CREATE, path=memory.path, node_id=memory.node_id, stage="entities", reason="", content=data
    )
    told.apply(Changeset(run_id="run-1", actions=(action,)))
    before = _files(paths.vault / "projects")
    assert memory.description == "Person, owns payments; handed over to Tom"

    denied = told.deny_relation(memory.node_id, "graca moreira OWNS payments")
    assert [one.relation for one in told.about("Graça", "shop", 1000).relations] == ["HANDED_OVER_TO"]
    (file,) = (paths.vault / "projects").rglob("people/*.md")
    left = okf.to_memory(memory.path, okf.parse(file.read_bytes()))
    assert conformance(memory.path, file.read_bytes()) == []
    assert (left.description, left.sources) == ("Person, handed over to Tom", (GAVE.turn,))
    assert left.text == text.replace(f"{lines[0]}\n", "").replace(f"{notes[0]}\n", "").replace("^t2", "^t1")
    assert left.extra["body_sha256"] == body_hash(left.text)
    held = entity_of(left)
    assert held is not None
    assert held.not_relations == (replace(OWNS, words="", until=NOW),)
    told.rebuild()
    assert [one.relation for one in told.about("Graça", "shop", 1000).relations] == ["HANDED_OVER_TO"]
    with pytest.raises(InvalidInput, match="it has no relation") as refused:
        told.deny_relation(memory.node_id, "Graça Moreira owns payments")
    assert refused.value.hint == "Its relations: Graça Moreira handed over to Tom invoices."
    told.undo(denied.run_id)
    assert _files(paths.vault / "projects") == before


def test_a_relation_is_denied_from_the_page_of_either_end_and_stays_denied_in_a_merge(told: MemoryStore) -> None:
    ana, tom = keep(told, graca(), EntityPage("Tom", EntityType.PERSON, mentions=("s1#3",)))
    told.deny_relation(tom, "Graça Moreira handed over to Tom invoices")
    assert [one.relation for one in told.about("Graça", "shop", 1000).relations] == ["OWNS"]
    told.merge_entities(tom, ana)
    data = told.vault.read(told.core.node(tom).path)
    page = entity_of(okf.to_memory("x.md", okf.parse(data)))
    assert page is not None
    assert [one.statement for one in page.not_relations] == ["Graça Moreira handed over to Tom invoices"]


def test_the_page_of_a_name_is_that_with_the_relation(told: MemoryStore) -> None:
    ana, tom = keep(told, graca(), EntityPage("Tom", EntityType.PERSON, mentions=("s1#3",)))
    page_with = told.page_with_relation
    assert page_with("graca", "Graça Moreira owns payments", "shop") == ana
    assert page_with("Tom", "graça moreira handed over to TOM invoices", "shop") == tom
    assert page_with(ana, "whatever", "elsewhere") == ana
    with pytest.raises(InvalidInput, match="it has no relation") as refused:
        page_with("Graça", "Graça Moreira owns the roof", "shop")
    assert "Graça Moreira owns payments" in str(refused.value.hint)
    for name, channel in (("Nobody", "shop"), ("Graça", "elsewhere")):
        with pytest.raises(NotFound, match=f"no page of {name}"):
            page_with(name, "Graça Moreira owns payments", channel)
    (other,) = keep(told, graca(), channel="bakery")
    assert page_with("Graça", "Graça Moreira owns payments", "bakery") == other
    with pytest.raises(InvalidInput, match="pages of several channels") as refused:
        page_with("Graça", "Graça Moreira owns payments", "*")
    assert refused.value.hint == f"Name one by its id: {other} of bakery; {ana} of shop."


def test_a_purge_takes_what_was_denied_of_its_turns(told: MemoryStore, paths: StorePaths) -> None:
    (page,) = keep(told, graca())
    told.deny_relation(page, "Graça Moreira owns payments")
    told.purge(Selection(nodes=("s1#1",)))
    assert not any(b"payments" in data for data in _files(paths.vault / "projects").values())


def test_merged_and_split_pages_are_undone_byte_for_byte(told: MemoryStore, paths: StorePaths) -> None:
    kept, other = keep(told, graca(), EntityPage("Gigi", EntityType.PERSON, mentions=("s1#2",)))
    before = _files(paths.vault / "projects")
    merged = told.merge_entities(kept, other)
    assert [one.name for one in told.about("gigi", "shop", 1000).entities] == ["Graça Moreira"]
    assert told.entities("shop").total == 1
    split = told.split_entity(kept, ["gigi"])
    assert told.about("Gigi", "shop", 1000).entities[0].node_id == split.node_id
    assert told.about("Graça", "shop", 1000).entities[0].node_id == kept
    told.undo(split.run_id)
    told.undo(merged.run_id)
    assert _files(paths.vault / "projects") == before


def test_pages_of_two_channels_are_not_merged(told: MemoryStore) -> None:
    (kept,) = keep(told, graca())
    (other,) = keep(told, EntityPage("Gigi"), channel="garden")
    with pytest.raises(InvalidInput, match="another channel"):
        told.merge_entities(kept, other)
    with pytest.raises(InvalidInput, match="no name"):
        told.split_entity(kept, ["Anna"])


def test_a_new_index_has_the_same_people(told: MemoryStore) -> None:
    keep(told, graca())
    before = told.about("Graça", "shop", 1000)
    told.rebuild()
    assert told.about("Graça", "shop", 1000) == before


@pytest.mark.parametrize(
    ("question", "answers"),
    [
        ("who owns payments?", ["Graça Moreira"]),
        ("who is in charge of payments", ["Graça Moreira"]),
        ("who took over the invoices from Graça?", ["Tom"]),
        ("who handed over the invoices", ["Graça Moreira"]),
        ("who owns the garden?", []),
        ("what did we say about payments?", []),
    ],
)
def test_a_question_for_a_relation_is_answered_by_the_one_in_force(
    told: MemoryStore, question: str, answers: list[str]
) -> None:
    old = EntityRelation("Tom", RelationType.OWNS, "payments", "s1#3", SAID[2], MAY_8, MAY_9)
    keep(told, graca(), EntityPage("Tom", EntityType.PERSON, relations=(old,)))
    assert [one.answer for one in told.recall(question, channel="shop").exact] == answers


def test_a_relation_of_another_channel_answers_nothing(told: MemoryStore) -> None:
    keep(told, graca())
    assert told.recall("who owns payments?", channel="garden").exact == []
    assert [one.answer for one in told.recall("who owns payments?", channel="*").exact] == ["Graça Moreira"]
