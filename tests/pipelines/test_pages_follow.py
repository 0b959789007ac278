"""Pages of real dreams after a correction by hand: what they say is right at once, and an undo takes it back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from dreamd.store import okf
from dreamd.store.model import Edit, NodeId

from tests.pipelines.test_undone import SESSIONS, Nights

OTHER = "The tram to the workshop leaves at twenty past seven."


@pytest.fixture(scope="module")
def dreamt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nights]:
    """Give a memory after its first dream, as each test but the last leaves it."""
    made = Nights(tmp_path_factory.mktemp("nights"))
    made.hear(SESSIONS[:3])
    made.dream(1)
    yield made
    made.store.close()


def profile(nights: Nights) -> str:
    return next(path for path in sorted(nights.files()) if path.endswith("what-holds-now.md"))


def body(nights: Nights, path: str) -> str:
    return okf.parse(nights.files()[path]).body


def cited(nights: Nights, path: str) -> list[NodeId]:
    """Return the facts of a page that stand on a line of their own words."""
    memory = okf.to_memory(path, okf.parse(nights.files()[path]))
    shown = [nights.store.show(node_id) for node_id in memory.sources]
    return [one.node_id for one in shown if one.live and " ".join(one.text.split()) in body(nights, path)]


def test_an_edited_fact_has_its_new_words_on_every_page_at_once(dreamt: Nights) -> None:
    before, page = dreamt.files(), profile(dreamt)
    fact = cited(dreamt, page)[0]
    old = dreamt.store.show(fact).text
    done = dreamt.store.edit(fact, Edit(text=OTHER))
    pages = {path: text.decode() for path, text in dreamt.files().items() if not path.startswith("sessions/")}
    assert OTHER in pages[page]
    assert not any(" ".join(old.split()) in " ".join(text.split()) for text in pages.values())
    assert dreamt.store.undo(done.run_id or "").skipped == ()
    assert dreamt.files() == before


def test_a_forgotten_fact_has_no_line_and_comes_back_with_it(dreamt: Nights) -> None:
    before, page = dreamt.files(), profile(dreamt)
    one, other = cited(dreamt, page)[:2]
    words, others = (" ".join(dreamt.store.show(each).text.split()) for each in (one, other))
    first, second = (dreamt.store.forget(each).run_id for each in (one, other))
    assert not any(each in body(dreamt, page) for each in (words, others))
    # The page has changed since the first: its line alone comes back, to its place.
    assert dreamt.store.undo(first).skipped == ()
    assert words in body(dreamt, page)
    assert others not in body(dreamt, page)
    assert dreamt.store.redo(first).skipped == ()
    assert words not in body(dreamt, page)
    dreamt.store.undo(second)
    dreamt.store.undo(first)
    assert {path: okf.parse(data).body for path, data in dreamt.files().items()} == {
        path: okf.parse(data).body for path, data in before.items()
    }


def test_a_replaced_fact_is_struck_through_until_that_is_undone(dreamt: Nights) -> None:
    before, page = body(dreamt, profile(dreamt)), profile(dreamt)
    older, newer = cited(dreamt, page)[:2]
    words = " ".join(dreamt.store.show(older).text.split())
    done = dreamt.store.link(newer, older, "Supersedes")
    line = next(line for line in body(dreamt, page).splitlines() if words in line)
    assert line.lstrip(" ").startswith("- ~~")
    assert "until" in line
    dreamt.store.undo(done.run_id or "")
    assert body(dreamt, page) == before


def test_the_undo_of_one_item_of_an_edit_and_the_redo_of_the_run_move_the_lines_too(dreamt: Nights) -> None:
    page = profile(dreamt)
    fact = cited(dreamt, page)[0]
    before = body(dreamt, page)
    run_id = dreamt.store.edit(fact, Edit(text=OTHER)).run_id or ""
    after = body(dreamt, page)
    dreamt.store.undo(run_id, [fact])
    assert body(dreamt, page) == before
    dreamt.store.redo(run_id)
    assert body(dreamt, page) == after
    dreamt.store.undo(run_id)
    assert body(dreamt, page) == before


def test_the_redo_of_a_run_after_an_items_undo_gives_a_page_its_lines_back(dreamt: Nights) -> None:
    page = profile(dreamt)
    fact = cited(dreamt, page)[0]
    before = dreamt.files()
    dreamt.store.undo("run-1", [fact])
    assert body(dreamt, page) != okf.parse(before[page]).body
    dreamt.store.redo("run-1")
    assert dreamt.files() == before


def test_a_page_that_a_person_edited_stays_theirs(dreamt: Nights) -> None:
    page = profile(dreamt)
    fact = cited(dreamt, page)[0]
    full = dreamt.paths.vault / page
    full.write_bytes(full.read_bytes() + b"\nA line of mine.\n")
    dreamt.store.file_changed([page])
    mine = dreamt.files()[page]
    node_id = okf.to_memory(page, okf.parse(mine)).node_id
    by_hand = [event for event in dreamt.store.history(node_id) if (event.what, event.who) == ("edited", "you")]
    assert by_hand[-1].why == "its words were changed"
    run_id = dreamt.store.edit(fact, Edit(text=OTHER)).run_id or ""
    assert dreamt.files()[page] == mine
    dreamt.store.undo(run_id)


def test_a_person_is_told_of_by_facts_as_they_are_now_also_after_the_next_dream(dreamt: Nights) -> None:
    graph = dreamt.store.entities("spokes")
    found = None
    for entity in graph.entities:
        lines = dreamt.store.about(entity.name, "spokes", 4000).lines
        found = found or next(((entity.name, line) for line in lines if line.part == "fact"), None)
    assert found is not None
    name, line = found
    assert line.text.endswith(f"[{line.node_id}]")
    quote = line.text.partition("“")[2].partition("”")[0]
    dreamt.store.forget(line.node_id)
    assert quote not in dreamt.store.about(name, "spokes", 4000).text
    dreamt.hear(SESSIONS[3:4])
    dreamt.dream(2)
    assert quote not in dreamt.store.about(name, "spokes", 4000).text
