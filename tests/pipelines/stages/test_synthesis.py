from __future__ import annotations

import random
from datetime import timedelta

import pytest
from dreamd.pipelines.language import nouns
from dreamd.pipelines.stages import insights, related, synthesis
from dreamd.pipelines.workspace.view import History, View
from dreamd.store.find.index.projection import memory_links
from dreamd.store.keep import okf
from dreamd.store.keep.ledger.questions import Gap, Probe
from dreamd.store.keep.okf.conformance import conformance
from dreamd.store.model import Action, ActionKind, Kind, Level, Memory

from tests import memories
from tests.pipelines.fakes import MAY_8, NOW, FakeSource


def fact(text: str, session: str, channel: str = "proj") -> Memory:
    at = MAY_8 + timedelta(days=int(session.strip("s")))
    learned = {"learned_at": NOW.isoformat()}
    return memories.fact(text, channel, created_at=at, sources=(f"{session}#1",), extra=learned)


def scenario(name: str, *facts: Memory, channel: str = "proj") -> Memory:
    return Memory(
        node_id=f"scenario-{name}",
        level=Level.SCENARIO,
        kind=Kind.SCENARIO,
        title=name.capitalize(),
        text="\n".join(f"- {each.text}" for each in facts),
        channel=channel,
        created_at=MAY_8,
        sources=tuple(each.node_id for each in facts),
        run="run-0",
        path=f"scenarios/{name}--scenario-{name}.md",
    )


def source_of(*memories: Memory) -> FakeSource:
    source = FakeSource()
    for each in memories:
        source.files[each.path] = okf.from_memory(each)
    return source


def harbour() -> list[Memory]:
    """Three scenarios of three sessions with one thing in common, two of them with two; and one with nothing."""
    told = {
        "sailing": [
            ("Ann repairs the boat in the harbour with the old rigging.", "s1"),
            ("Ann painted the boat blue for the regatta.", "s1"),
        ],
        "work": [
            ("Ann meets Bo at the harbour after the regatta.", "s2"),
            ("Bo lent Ann the rigging of his boat.", "s2"),
        ],
        "walks": [("Ann walks to the harbour on Sundays.", "s3"), ("Ann feeds the gulls.", "s3")],
        "tax": [("Ann filed the taxes in March.", "s4"), ("Ann keeps the receipts in a box.", "s4")],
    }
    memories = []
    for name, lines in told.items():
        facts = [fact(*line) for line in lines]
        memories += [*facts, scenario(name, *facts)]
    return memories


def dreamt(source: FakeSource, history: History | None = None) -> tuple[View, list[Action]]:
    view = source.view(history)
    planned = synthesis.plan(view, NOW)
    view.apply(planned.actions, planned.cursors)
    return view, planned.actions


def relates(source: FakeSource, memory: Memory) -> list[dict[str, object]]:
    return list(okf.parse(source.files[memory.path]).meta.get("relates", []))


@pytest.fixture
def all_near(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stub's vectors know no meaning."""
    monkeypatch.setattr(related, "NEAR", -1.0)


@pytest.mark.usefixtures("all_near")
def test_scenarios_that_share_rare_words_are_related_with_the_reason() -> None:
    memories = harbour()
    source = source_of(*memories)
    view, actions = dreamt(source)
    source.take(view)
    by_title = {memory.title: memory for memory in memories}
    (entry,) = [e for e in relates(source, by_title["Sailing"]) if e["title"] == "scenario-work"]
    assert entry["resource"] == "/scenarios/work--scenario-work.md"
    assert {"boat", "regatta"} <= set(str(entry["because"]).replace(",", "").split())
    assert [e["title"] for e in relates(source, by_title["Work"])] == ["scenario-sailing"]
    assert relates(source, by_title["Tax"]) == []
    for action in actions:
        assert action.fingerprint
        assert conformance(action.path, action.content or b"") == []
    whole = okf.to_memory(by_title["Work"].path, okf.parse(source.files[by_title["Work"].path]))
    assert "scenario-sailing" in [link.target for link in memory_links(whole) if link.kind == "relates"]


def test_scenarios_far_in_meaning_are_not_related_whatever_they_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(related, "NEAR", 1.01)
    _, actions = dreamt(source_of(*harbour()))
    assert not [action for action in actions if action.reason.startswith("related")]


@pytest.mark.usefixtures("all_near")
def test_a_second_week_changes_nothing_and_an_undone_one_is_not_repeated() -> None:
    source = source_of(*harbour())
    first, actions = dreamt(source)
    assert actions
    undone = History(tombstones=frozenset(action.fingerprint or "" for action in actions))
    assert dreamt(source, undone)[1] == []
    history = source.take(first)
    assert dreamt(source, history)[1] == []
    assert dreamt(source)[1] == []  # without its cursor it compares again, and finds nothing to change


@pytest.mark.usefixtures("all_near")
def test_a_persons_own_relation_stays_and_ours_go_when_they_no_longer_hold() -> None:
    memories = harbour()
    work = next(memory for memory in memories if memory.title == "Work")
    source = source_of(*memories)
    mine = {"title": "scenario-tax", "resource": "/scenarios/tax--scenario-tax.md"}
    source.files[work.path] = okf.edit(source.files[work.path], {"relates": [mine]})
    view, _ = dreamt(source)
    source.take(view)
    assert [entry["title"] for entry in relates(source, work)] == ["scenario-tax", "scenario-sailing"]
    sailing = next(memory for memory in memories if memory.title == "Sailing")
    source.files[sailing.path] = okf.edit(source.files[sailing.path], {"status": "deprecated"})
    view, _ = dreamt(source)
    source.take(view)
    assert relates(source, work) == [mine]


def test_an_insight_quotes_facts_and_cites_their_scenarios() -> None:
    memories = harbour()
    source = source_of(*memories)
    view, actions = dreamt(source)
    (action,) = [action for action in actions if action.kind is ActionKind.CREATE]
    page = okf.to_memory(action.path, okf.parse(action.content or b""))
    assert (page.kind, page.level, page.title) == (Kind.INSIGHT, Level.SCENARIO, "Harbour across 3 scenarios")
    assert page.sources == ("scenario-sailing", "scenario-work", "scenario-walks")
    texts = {memory.text for memory in memories if memory.level is Level.FACT}
    lines = [line for line in page.text.splitlines() if line.startswith("- ")]
    assert len(lines) == 3
    for number, line in enumerate(lines, start=1):
        told, _, label = line.removeprefix("- ").rpartition(" ")
        assert told in texts
        assert label == f"[^m{number}]"
    assert conformance(action.path, action.content or b"") == []
    assert view.holds(page.node_id)


def test_an_insight_is_archived_when_its_scenarios_are_gone_and_kept_when_a_person_wrote_on_it() -> None:
    memories = harbour()
    source = source_of(*memories)
    view, actions = dreamt(source)
    source.take(view)
    (path,) = [action.path for action in actions if action.kind is ActionKind.CREATE]
    for memory in memories:
        if memory.title in {"Sailing", "Work"}:
            source.files[memory.path] = okf.edit(source.files[memory.path], {"status": "deprecated"})
    (gone,) = [action for action in dreamt(source)[1] if action.path == path]
    assert okf.parse(gone.content or b"").meta["status"] == "deprecated"
    source.files[path] = source.files[path].replace(b"harbour", b"port")
    assert [action for action in dreamt(source)[1] if action.path == path] == []


def test_channels_are_never_related_to_each_other() -> None:
    here = [fact("The kiln is in the shed.", "s1"), fact("The glaze is in the shed.", "s2")]
    there = [fact("The kiln is in the attic.", "s3", "other"), fact("The glaze is in the attic.", "s4", "other")]
    source = source_of(*here, *there, scenario("a", *here), scenario("b", *there, channel="other"))
    assert dreamt(source)[1] == []


def test_facts_that_answer_the_same_questions_are_linked() -> None:
    one, other, third = fact("It is red.", "s1"), fact("It is big.", "s2"), fact("It is old.", "s3")
    source = source_of(one, other, third)
    probes = [Probe(f"what {n}", "proj", ("s1#1", "s2#1")) for n in range(3)] + [Probe("x", None, ("s1#1", "s3#1"))]
    view, _ = dreamt(source, History(probes=probes))
    history = source.take(view)
    (entry,) = relates(source, one)
    assert (entry["title"], entry["because"]) == (other.node_id, "used together for 3 questions")
    assert relates(source, third) == []
    assert dreamt(source, History(cursors=history.cursors, probes=probes))[1] == []


def test_the_relations_of_a_memory_are_bounded() -> None:
    hub = fact("It is the hub.", "s0")
    spokes = [fact(f"Spoke {n} is long.", f"s{n}") for n in range(1, 20)]
    probes = [Probe(f"{n} {again}", None, ("s0#1", f"s{n}#1")) for n in range(1, 20) for again in range(2)]
    found = related.used_together(probes, [hub, *spokes])
    assert len(found) == related.MOST_RELATIONS


def test_similar_questions_are_one_gap() -> None:
    gaps = [
        Gap("Where is the spare key?", None, 2, NOW),
        Gap("Where is the spare key?", "proj", 3, NOW - timedelta(days=1)),
        Gap("Who owns the boat?", None, 1, NOW - timedelta(days=2)),
    ]
    told = synthesis.recurring(FakeSource().view(), gaps)
    assert told == [("Where is the spare key?", 5), ("Who owns the boat?", 1)]
    assert synthesis.recurring(FakeSource().view(), []) == []


def test_nothing_is_synthesised_while_learning_is_off() -> None:
    source = source_of(*harbour())
    assert dreamt(source, History(paused=True))[1] == []
    assert dreamt(source, History(channels_off=frozenset({"proj"})))[1] == []


def test_nouns_are_recognised_by_their_place_in_a_sentence() -> None:
    texts = [
        "Art brings joy.",
        "The art of it brings people together.",
        "Ann's art, it brings calm.",
    ]
    found = nouns.nouns_of(texts)
    assert found["art"].lower() == "art"
    assert "bring" not in found


def test_the_work_grows_with_the_texts_and_not_with_their_pairs() -> None:
    everywhere = {f"s{n}": {"common", f"own{n}"} for n in range(500)}
    spread = {"common": 500} | {f"own{n}": 1 for n in range(500)}
    assert related._shared(everywhere, spread) == {}
    held = {f"s{n}": {f"a{n // 4}", f"b{n // 4}"} for n in range(500)}
    spread = {f"{letter}{n}": 4 for n in range(125) for letter in "ab"}
    assert len(related._shared(held, spread)) == 125 * 6


def test_themes_of_a_large_channel_are_bounded() -> None:
    rng = random.Random(3)
    things = [f"thing{n}" for n in range(400)]
    facts = [
        fact(f"Ann keeps the {rng.choice(things)} in the {rng.choice(things)} at {n}.", f"s{n % 90}")
        for n in range(4000)
    ]
    pages = [scenario(f"p{n}", *facts[10 * n : 10 * n + 10]) for n in range(400)]
    found = insights.themes(pages, {each.node_id: each for each in facts})
    assert len(found) <= insights.MOST_INSIGHTS
