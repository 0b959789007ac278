"""Episodes and profiles from facts to files: made once, brought up to date, never over a person's own words."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from dreamd.pipelines.pages import episodes
from dreamd.pipelines.stages import profiles, scenarios
from dreamd.pipelines.workspace.snapshot import History
from dreamd.pipelines.workspace.view import View
from dreamd.store import okf
from dreamd.store.model import CURRENT_PAGE, ActionKind, Kind, Level, Memory
from dreamd.store.okf.file import conformance

from tests.pipelines.fakes import NOW, FakeSource
from tests.pipelines.pages.said import START, said

WORDS = {
    "s1": [
        "We sail the boat with the red sail.",
        "The boat gets a new mast.",
        "Take oak for the boat's rudder.",
        "Paint the boat in May.",
    ],
    "s20": [
        "The piano needs a new pedal.",
        "Play the piano at nine.",
        "We tune the piano in May.",
        "Never move the piano alone.",
    ],
}


def source_of(words: dict[str, list[str]] = WORDS) -> FakeSource:
    source = FakeSource()
    for session, sentences in words.items():
        source.add(session, *(("user", text) for text in sentences), at=START)
        facts = [said(text, f"{session}#{n}", Kind.DECISION) for n, text in enumerate(sentences, start=1)]
        source.keep(*facts)
    return source


def dreamt(source: FakeSource, history: History | None = None, run_id: str = "run-1") -> View:
    view = source.view(history, run_id)
    for stage in (scenarios, profiles):
        planned = stage.plan(view, NOW)
        view.apply(planned.actions, planned.cursors)
    return view


def pages(view: View) -> dict[str, Memory]:
    return {page.title: page for page in view.whole(Level.SCENARIO, "proj")}


def test_an_episode_is_a_page_that_cites_its_facts_and_says_when_it_was() -> None:
    source = source_of()
    source.titles["s1"] = "Getting the boat afloat"
    view = dreamt(source)
    page = pages(view)["Getting the boat afloat"]
    assert len(pages(view)) == 2
    assert page.sources == tuple(said(text, "s1#1").node_id for text in WORDS["s1"])
    assert page.description == "2 March 2026, 4 facts of 1 session."
    assert (page.extra["began"], page.extra["ended"]) == ("2026-03-02", "2026-03-02")
    data = view.read(page.path) or b""
    assert conformance(page.path, data) == []
    assert okf.parse(data).meta["sources"][0]["resource"].startswith("/projects/proj/facts/")


def test_a_second_dream_without_news_writes_nothing() -> None:
    source = source_of()
    history = source.take(dreamt(source))
    again = dreamt(source, history, "run-2")
    assert (again.actions, again.cursors) == ([], {})
    assert dreamt(source, None, "run-3").actions == []  # nor does one that has lost its cursors


def test_a_session_that_goes_on_changes_its_page_and_no_other() -> None:
    source = source_of()
    source.titles["s1"] = "Getting the boat afloat"
    first = dreamt(source)
    history = source.take(first)
    source.titles["s1"] = "Another name by now"
    source.keep(said("The boat flies a blue flag.", "s1#9", Kind.DECISION))
    view = dreamt(source, history, "run-2")
    (action,) = [action for action in view.actions if action.stage == scenarios.STAGE]
    assert action.kind is ActionKind.REPLACE
    assert action.path == pages(first)["Getting the boat afloat"].path
    assert "blue flag" in pages(view)["Getting the boat afloat"].text


def test_what_is_replaced_is_struck_through_where_it_was_decided() -> None:
    source = source_of()
    history = source.take(dreamt(source))
    old = said(WORDS["s1"][0], "s1#1", Kind.DECISION)
    new = said("The sail is white now.", "s20#7", Kind.DECISION)
    source.keep(replace(old, superseded_by=new.node_id, valid_to=datetime(2026, 3, 21, tzinfo=UTC)), new)
    view = dreamt(source, history, "run-2")
    page = next(page for page in pages(view).values() if old.node_id in page.sources)
    assert "~~“We sail the boat with the red sail.”~~ (until 21 March 2026)" in page.text
    (profile,) = view.whole(Level.PROFILE, "proj")
    assert "- 21 March 2026: “The sail is white now.”" in profile.text
    assert "  - ~~2 March 2026: “We sail the boat with the red sail.”~~ (until 21 March 2026)" in profile.text


def test_pages_that_a_person_edited_are_left_alone() -> None:
    source = source_of()
    history = source.take(dreamt(source))
    mine = [path for path in source.files if not path.startswith("projects/proj/facts/")]
    for path in mine:
        source.files[path] += b"\nMy own words.\n"
    source.keep(*(said(f"The {thing} is blue.", f"{s}#9") for s, thing in (("s1", "boat"), ("s20", "piano"))))
    again = dreamt(source, history, "run-2")
    assert not {action.path for action in again.actions} & set(mine)
    assert {memory.path for memory in again.memories() if memory.node_id in again.left_alone} <= set(mine)
    assert again.left_alone


def test_pages_whose_facts_are_gone_are_put_away_and_come_back_with_them() -> None:
    source = source_of()
    history = source.take(dreamt(source))
    facts = {path: data for path, data in source.files.items() if path.startswith("projects/proj/facts/")}
    for path in facts:
        del source.files[path]
    gone = dreamt(source, history, "run-2")
    assert len(gone.actions) == 3
    assert gone.memories() == []
    history = source.take(gone)
    source.files |= facts
    back = dreamt(source, history, "run-3")
    assert [page.title for page in back.memories(Level.PROFILE)] == [CURRENT_PAGE]


def test_too_few_facts_and_no_words_for_a_title_make_no_page() -> None:
    few = source_of({"s1": WORDS["s1"][: episodes.SMALLEST - 1]})
    assert pages(dreamt(few)) == {}
    wordless = source_of()
    for session in wordless.said:
        wordless.add(session, ("user", "ok"), ("assistant", "Everything about the boat and the piano is done."))
    assert pages(dreamt(wordless)) == {}


def test_clusters_of_an_older_dreamd_make_room() -> None:
    source = source_of()
    facts = [okf.to_memory(path, okf.parse(data)) for path, data in source.files.items()]
    old = dreamt(source_of()).memories(Level.SCENARIO)[0]
    extra = {key: value for key, value in old.extra.items() if key not in {scenarios.BEGAN, scenarios.ENDED}}
    source.keep(replace(old, node_id="old", title="Boat, new", path="scenarios/boat-new--old.md", extra=extra))
    view = dreamt(source)
    assert len(facts) == 8
    assert "Boat, new" not in {page.title for page in view.memories(Level.SCENARIO)}
    assert len(view.memories(Level.SCENARIO)) == 2


def test_a_person_of_weight_has_a_page_of_what_holds() -> None:
    source = source_of()
    outcome = ["The shop is owned by Graça.", "It is Graça who sets prices.", "Short forms, says Graça."]
    source.keep(*(said(text, f"s{n}#5", about=("Graça",)) for n, text in enumerate(outcome, start=1)))
    view = dreamt(source)
    page = next(page for page in view.whole(Level.PROFILE, "proj") if page.title == "Graça")
    assert page.path == "projects/proj/graca.md"
    assert page.description == "3 facts, 2 March 2026 to 4 March 2026, newest first."
    assert page.text.splitlines()[2] == "- 4 March 2026: “Short forms, says Graça.” [^m1]"
    assert conformance(page.path, view.read(page.path) or b"") == []


def test_a_persons_own_page_is_never_overwritten() -> None:
    source = source_of()
    source.files["projects/proj/what-holds-now.md"] = b"---\ntype: Note\n---\n\nMine.\n"
    assert "projects/proj/what-holds-now.md" not in {action.path for action in dreamt(source).actions}


def test_a_channel_that_is_off_and_a_pause_make_no_pages() -> None:
    assert dreamt(source_of(), History(channels_off=frozenset({"proj"}))).actions == []
    assert dreamt(source_of(), History(paused=True)).actions == []
