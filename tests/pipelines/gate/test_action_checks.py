"""The rules for a stage's actions: what each refuses, in which words, and how many exceptions it allows."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from dreamd.pipelines.gate.action_checks import ActionChecker, Losses
from dreamd.pipelines.pages import current_facts as quotes
from dreamd.pipelines.workspace.snapshot import History
from dreamd.store import okf
from dreamd.store.changes.links import SAME_AS
from dreamd.store.ledger.ledger import Usage
from dreamd.store.model import Action, ActionKind, Level, Memory, Status

from tests.memories import fact
from tests.pipelines.fakes import MAY_8, NOW, FakeSource

LADDER = fact("Marek keeps the blue ladder in the attic.", created_at=MAY_8, sources=("s1#1",))
NEWER = fact("Priya keeps the blue ladder in the attic now.", created_at=MAY_8 + timedelta(days=9), sources=("s1#2",))


def source_of(*memories: Memory) -> FakeSource:
    source = FakeSource()
    source.add("s1", ("Ann", LADDER.text), ("Ann", NEWER.text), *(("Ann", f"Nothing of {n}.") for n in range(9)))
    source.files = {memory.path: okf.from_memory(memory) for memory in memories}
    return source


def action(path: str, node_id: str, content: bytes | None) -> Action:
    kind = ActionKind.DELETE if content is None else ActionKind.REPLACE
    return Action(kind=kind, path=path, node_id=node_id, stage="planted", reason="planted", content=content)


def written(memory: Memory) -> Action:
    return action(memory.path, memory.node_id, okf.from_memory(memory))


def reasons(source: FakeSource, *actions: Action, history: History | None = None) -> list[str]:
    return ActionChecker(source.view(history), NOW).check(actions)[0]


def test_a_fact_that_its_turn_states_passes() -> None:
    assert reasons(source_of(), written(LADDER), written(NEWER)) == []


def test_new_facts_must_be_supported_by_the_turns_they_cite() -> None:
    strays = [fact(f"The mayor of Lisbon sells windmill {name}.", sources=("s1#3",)) for name in ("Ada", "Bo", "Cy")]
    assert reasons(source_of(), *map(written, [LADDER, *strays])) == [
        "3 of 4 new facts are not supported by the turns they cite"
    ]


def test_one_stray_fact_is_an_exception() -> None:
    stray = fact("The mayor of Lisbon sells windmills.", sources=("s1#3",))
    assert reasons(source_of(), written(LADDER), written(stray)) == []


def test_new_memories_must_cite_a_source_that_exists() -> None:
    unfounded = [replace(LADDER, sources=("s1#99",)), replace(NEWER, sources=())]
    assert reasons(source_of(), *map(written, unfounded)) == ["2 new memories cite no source that exists"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"text": "Marek sells ladders."}, "facts reworded: 1"),
        ({"channel": "elsewhere"}, "facts moved to another channel, level or time: 1"),
        ({"sources": ()}, "facts that lose evidence: 1"),
        ({"superseded_by": "nothing"}, "facts superseded by a missing memory: 1"),
    ],
)
def test_a_fact_keeps_its_words_its_place_and_its_evidence(changes: dict[str, Any], reason: str) -> None:
    assert reasons(source_of(LADDER), written(replace(LADDER, **changes))) == [reason]


def test_no_fact_is_deleted() -> None:
    gone = action(LADDER.path, LADDER.node_id, None)
    assert reasons(source_of(LADDER), gone) == ["facts deleted: 1"]


def test_no_session_is_changed() -> None:
    changed = action("sessions/2023/05/08/s1.md", "s1", b"# Another\n")
    assert reasons(source_of(), changed) == ["sessions changed: 1"]


def test_a_fact_is_superseded_by_a_newer_one_only() -> None:
    source = source_of(LADDER, NEWER)
    assert reasons(source, written(replace(LADDER, superseded_by=NEWER.node_id))) == []
    assert reasons(source, written(replace(NEWER, superseded_by=LADDER.node_id))) == [
        "newer facts superseded by older ones: 1"
    ]


def test_a_fact_is_superseded_by_one_of_another_channel_only_of_its_project(one_project: tuple[str, str]) -> None:
    own, other = one_project
    old, strange = replace(LADDER, channel=own), replace(NEWER, channel="proj-000000")
    for newer, refused in ((replace(NEWER, channel=other), 0), (strange, 1)):
        found = reasons(source_of(old, newer), written(replace(old, superseded_by=newer.node_id)))
        assert found == ["facts superseded by a missing memory: 1"] * refused


def test_a_fact_is_not_superseded_by_ones_that_only_say_less() -> None:
    rich = [fact(f"Marek keeps the ladder of pier {n} in the attic.", created_at=MAY_8) for n in (40, 50)]
    poor = fact("Marek keeps the ladder in the attic.", created_at=NOW)
    retired = [written(replace(memory, superseded_by=poor.node_id)) for memory in rich]
    assert reasons(source_of(*rich, poor), *retired) == ["2 of 2 facts are superseded by ones that only say less"]


def test_what_a_newer_fact_replaced_does_not_hold_again() -> None:
    old = replace(LADDER, superseded_by=NEWER.node_id)
    again = written(replace(old, superseded_by=None))
    assert reasons(source_of(old, NEWER), again) == ["facts that hold again though a newer one replaced them: 1"]
    assert reasons(source_of(old), again) == []
    said_again = replace(old, superseded_by=None, supersedes=(NEWER.node_id,))
    assert reasons(source_of(old, NEWER), written(said_again)) == []


def test_only_a_newer_fact_is_said_to_have_taken_the_place_of_another() -> None:
    source = source_of(LADDER, NEWER)
    assert reasons(source, written(replace(LADDER, later=(NEWER.node_id,)))) == []
    assert reasons(source, written(replace(NEWER, later=(LADDER.node_id,)))) == [
        "facts said to be changed by older ones: 1"
    ]


def test_what_is_quoted_is_whole_sentences() -> None:
    quotes = [replace(memory, said_by="user") for memory in (LADDER, NEWER)]
    cut = [replace(quote, text=quote.text.replace(" in the attic", "")) for quote in quotes]
    assert reasons(source_of(), *map(written, quotes)) == []
    assert reasons(source_of(), *map(written, cut)) == ["2 of 2 quotes are not whole sentences of what they cite"]


def test_a_page_quotes_its_facts_whole() -> None:
    def page(*quotes: str) -> Memory:
        lines = "\n".join(f"- “{quote}” [^m1]" for quote in quotes)
        return fact(lines, level=Level.SCENARIO, path="scenarios/ladder.md", sources=(LADDER.node_id, NEWER.node_id))

    source = source_of(LADDER, NEWER)
    assert reasons(source, written(page(LADDER.text, NEWER.text))) == []
    assert reasons(source, written(page("Marek keeps the blue ladder", "Priya keeps the blue ladder"))) == [
        "2 of 2 quotes are not whole sentences of what they cite"
    ]


def test_a_memory_that_is_in_use_is_not_archived() -> None:
    archived = written(replace(LADDER, status=Status.DEPRECATED, archived_at=NOW))
    assert reasons(source_of(LADDER), archived) == []
    used = History(usage={LADDER.node_id: Usage(1, NOW - timedelta(days=1))})
    assert reasons(source_of(LADDER), archived, history=used) == ["memories archived though in use: 1"]


def test_a_memory_is_not_archived_soon_after_it_was_learned() -> None:
    young = replace(LADDER, extra={"learned_at": (NOW - timedelta(days=3)).isoformat()})
    archived = written(replace(young, status=Status.DEPRECATED, archived_at=NOW))
    assert reasons(source_of(young), archived) == ["memories archived too soon after they were learned: 1"]
    of_session = replace(young, channel="shop/~s1")
    archived = written(replace(of_session, status=Status.DEPRECATED, archived_at=NOW))
    assert reasons(source_of(of_session), archived) == []


def test_a_repeated_fact_goes_only_where_another_says_it_or_has_taken_its_place() -> None:
    again = fact("The blue ladder is in the attic, at Marek's.", created_at=MAY_8 + timedelta(days=3))
    repeated = replace(again, status=Status.DEPRECATED, archived_at=NOW, extra={SAME_AS: [LADDER.node_id]})
    replaced = replace(LADDER, superseded_by=NEWER.node_id)
    gone = replace(LADDER, status=Status.DEPRECATED, archived_at=NOW)
    assert reasons(source_of(LADDER, again), written(repeated)) == []
    assert reasons(source_of(LADDER, NEWER, again), written(repeated), written(replaced)) == []
    assert reasons(source_of(gone, again), written(repeated)) == [
        "facts archived as repeated, of which no other says the same: 1"
    ]


def test_the_day_and_the_note_beside_a_short_statement_need_no_source() -> None:
    cake = fact("Cake at five.", created_at=MAY_8)
    facts = [
        cake,
        fact("Tea at five.", created_at=MAY_8, superseded_by=cake.node_id, valid_to=NOW),
        fact("Rye bread.", created_at=MAY_8, later=(cake.node_id,)),
        fact("No salt.", created_at=MAY_8, contradicts=(cake.node_id,)),
    ]
    lines = "\n".join(quotes.line(one, one.node_id, quotes.dated) for one in facts)
    page = replace(LADDER, level=Level.PROFILE, text=lines, sources=tuple(one.node_id for one in facts))
    source = source_of(*facts)
    assert reasons(source, written(page)) == []
    assert reasons(source, written(replace(page, text=lines.replace("Rye bread", "Oat milk")))) == []  # one may stray
    invented = lines.replace("Rye bread", "Oat milk").replace("No salt", "Snow")
    assert reasons(source, written(replace(page, text=invented))) == [
        "2 of 4 lines of pages are not supported by their sources"
    ]


def test_a_page_that_a_person_wrote_is_not_changed() -> None:
    page = replace(LADDER, level=Level.PROFILE, path="profiles/proj/tools.md", node_id="tools")
    changed = written(replace(page, text="- Marek sells ladders."))
    assert "pages changed that a person wrote or edited: 1" in reasons(source_of(page), changed)


def test_a_refused_stage_leaves_the_losses_of_the_run_as_they_were() -> None:
    checker = ActionChecker(source_of(LADDER, NEWER).view(), NOW)
    _, losses = checker.check([written(replace(LADDER, superseded_by=NEWER.node_id))])
    assert (losses.replaced, checker.losses.replaced) == (1, 0)


@pytest.mark.parametrize(
    ("taken", "reasons"),
    [
        ({"archived": 10, "replaced": 100, "pages_gone": 10}, []),
        ({"archived": 11}, ["it would archive 11 facts, one run may archive 10"]),
        ({"replaced": 101}, ["it would supersede 101 facts, one run may supersede 100"]),
        ({"pages_gone": 11}, ["it would remove 11 pages, one run may remove 10"]),
    ],
)
def test_what_one_run_may_take_is_bounded(taken: dict[str, int], reasons: list[str]) -> None:
    assert list(Losses(living=1000, pages=40, **taken).reasons()) == reasons
