"""Tags of what facts name, and relations between facts that answers had together."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from dreamd.pipelines.stages import synthesis
from dreamd.pipelines.workspace.snapshot import History
from dreamd.pipelines.workspace.view import View
from dreamd.store import okf
from dreamd.store.ledger.work import START
from dreamd.store.model import Kind, Level, Memory, NodeId
from dreamd.store.okf.entity_page import EntityPage, EntityType
from dreamd.store.results import ToldLine, ToldText

from tests.memories import fact
from tests.pipelines.fakes import NOW, FakeSource
from tests.pipelines.pages.said import said


def page(name: str, *mentions: NodeId, aliases: tuple[str, ...] = ()) -> Memory:
    keys = EntityPage(name, EntityType.TOOL, aliases, mentions=mentions).as_keys()
    path = f"projects/proj/things/{name.lower()}.md"
    extra = {key: value for key, value in keys.items() if value is not None}
    return fact(name, level=Level.PROFILE, kind=Kind.ENTITY, extra=extra, path=path)


FACTS = (
    said("We store the list with Dexie.", "s1#1"),
    said("The Dexie tables open slowly.", "s2#1"),
    said("Ask Otto for the key.", "s3#1"),
    said("The list has a limit.", "s4#1"),
    said("Bread needs salt.", "s5#1"),
)


def tags_of(view: View, memory: Memory) -> tuple[str, ...]:
    whole = view.memory(memory.node_id)
    assert whole is not None
    return whole.tags


def tagged(source: FakeSource, history: History | None = None) -> View:
    view = source.view(history)
    planned = synthesis.tag(view, NOW)
    view.apply(planned.actions, planned.cursors)
    return view


def test_a_fact_is_tagged_with_the_pages_of_what_it_names() -> None:
    source = FakeSource()
    source.keep(*FACTS, page("Dexie", "s1#1", "s2#1"), page("Otto", "s3#1"), page("List", "s1#1"))
    view = tagged(source)
    # One mention parts nothing, and a turn that a page does not list means another thing of the name.
    assert [tags_of(view, one) for one in FACTS] == [("dexie",), ("dexie",), (), (), ()]
    source.take(view)
    assert tagged(source).actions == []


def test_a_tag_takes_the_spelling_that_is_there_and_is_given_once() -> None:
    source = FakeSource()
    source.keep(*FACTS[2:], page("Dexie DB", "s1#1", "s2#1", aliases=("Dexie",)))
    source.keep(replace(FACTS[0], tags=("Dexie_db",)), FACTS[1])
    view = tagged(source)
    assert (tags_of(view, FACTS[0]), tags_of(view, FACTS[1])) == (("Dexie_db",), ("Dexie_db",))
    source.take(view)
    path = FACTS[1].path
    source.files[path] = okf.edit(source.files[path], {"tags": None})
    assert tagged(source).actions == []


def test_a_tag_that_was_undone_or_a_fact_of_a_person_is_left_alone() -> None:
    source = FakeSource()
    source.keep(*FACTS[2:], page("Dexie", "s1#1", "s2#1"), FACTS[0], replace(FACTS[1], run=None))
    assert [action.node_id for action in tagged(source).actions] == [FACTS[0].node_id]
    undone = History(tombstones=frozenset({f"{synthesis.TAGS}:{FACTS[0].node_id}"}))
    assert tagged(source, undone).actions == []


def told(session: str, *names: NodeId, used: bool = True, moment: str = "prompt") -> ToldText:
    lines = tuple(ToldLine("", name, "used" if used and not place else "") for place, name in enumerate(names))
    return ToldText(NOW - timedelta(days=1), session, "proj", "codex", moment, 9, True, "", lines)


def related(source: FakeSource, *texts: ToldText, tombstones: frozenset[str] = frozenset()) -> View:
    view = source.view(History(told=texts, tombstones=tombstones))
    planned = synthesis.relate(view, NOW)
    view.apply(planned.actions, planned.cursors)
    return view


ONE, OTHER = sorted((FACTS[0], FACTS[1]), key=lambda one: one.node_id)


def relations(view: View) -> list[tuple[NodeId, float]]:
    whole = view.memory(ONE.node_id)
    listed = whole.extra.get("relates", []) if whole else []
    return [(entry["title"], entry["weight"]) for entry in listed]


def test_facts_that_answers_of_three_sessions_had_are_related_and_closer_with_more() -> None:
    source = FakeSource()
    source.keep(*FACTS)
    both = [told(f"t{n}", FACTS[0].sources[0], FACTS[1].node_id) for n in range(5)]
    assert related(source, *both[:2], both[0]).actions == []
    view = related(source, *both[:3])
    assert relations(view) == [(OTHER.node_id, 0.7)]
    (action,) = view.actions
    assert related(source, *both[:3], tombstones=frozenset({action.fingerprint or ""})).actions == []
    source.take(view)
    assert related(source, *both[:3]).actions == []
    assert relations(related(source, *both)) == [(OTHER.node_id, 0.9)]


def test_facts_that_are_told_everywhere_or_in_vain_are_not_related() -> None:
    source = FakeSource()
    source.keep(*FACTS)
    ids = FACTS[0].node_id, FACTS[1].node_id
    assert related(source, *(told(f"t{n}", *ids, used=False) for n in range(4))).actions == []
    assert related(source, *(told(f"t{n}", *ids, moment=START) for n in range(4))).actions == []
    everywhere = [told(f"u{n}", ids[0]) for n in range(4)]
    assert related(source, *(told(f"t{n}", *ids) for n in range(3)), *everywhere).actions == []


def test_facts_of_which_one_replaced_the_other_are_not_related() -> None:
    source = FakeSource()
    source.keep(replace(ONE, later=(OTHER.node_id,)), OTHER)
    both = [told(f"t{n}", ONE.node_id, OTHER.node_id) for n in range(3)]
    assert related(source, *both).actions == []
