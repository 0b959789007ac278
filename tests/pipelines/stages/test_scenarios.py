from __future__ import annotations

from dreamd.pipelines import run
from dreamd.pipelines.registry import Stage
from dreamd.pipelines.workspace.view import History, View
from dreamd.store.keep import okf
from dreamd.store.keep.okf.conformance import conformance
from dreamd.store.model import ActionKind, Level, Memory

from tests.pipelines.fakes import NOW, FakeSource

THEMES = {
    "boat": ["red sail", "wooden mast", "new anchor", "old rudder", "long rope", "leaking hull"],
    "piano": ["first sonata", "broken pedal", "jazz chords", "hard etude", "grand concert", "slow waltz"],
    "garden": ["ripe tomatoes", "wild roses", "stone path", "apple tree", "green fence", "bee hive"],
}


def _source() -> FakeSource:
    source = FakeSource()
    for theme, details in THEMES.items():
        said = [("Ann", f"My {theme} {theme} {theme} has a {detail} {theme} {theme}.") for detail in details]
        source.add(f"s-{theme}", *said)
    return source


def _dream(source: FakeSource, history: History | None = None, run_id: str = "run-1") -> View:
    view = source.view(history, run_id)
    run.plan(view, NOW, dict.fromkeys(Stage, True))
    return view


def _scenarios(view: View) -> list[Memory]:
    return view.memories(Level.SCENARIO)


def test_facts_that_belong_together_get_a_page_that_cites_them() -> None:
    view = _dream(_source())
    pages = _scenarios(view)
    themes = [{theme for theme in THEMES if theme in page.text} for page in pages]
    assert all(len(theme) == 1 for theme in themes)
    assert set.union(*themes) == set(THEMES)
    page = pages[0]
    assert set(page.sources) <= {fact.node_id for fact in view.memories(Level.FACT)}
    assert page.text.count("[^m") == len(page.sources)
    assert f"[^m{len(page.sources)}]" in page.text
    assert "## 8 May 2023" in page.text
    assert page.title.startswith("Ann: ")
    data = view.read(page.path) or b""
    assert conformance(page.path, data) == []
    assert okf.parse(data).meta["sources"][0]["resource"].startswith("/facts/")


def test_a_second_run_of_an_unchanged_day_changes_nothing() -> None:
    source = _source()
    history = source.take(_dream(source))
    again = _dream(source, history, "run-2")
    assert again.actions == []
    assert again.cursors == {}


def test_a_new_fact_joins_and_the_page_keeps_its_place() -> None:
    source = _source()
    first = _dream(source)
    history = source.take(first)
    before = {page.node_id: page for page in _scenarios(first)}
    source.add("s-new", ("Ann", "My boat boat boat has a blue flag boat boat."))
    view = _dream(source, history, "run-2")
    changed = [action for action in view.actions if action.kind is ActionKind.REPLACE and action.stage == "scenarios"]
    assert len(changed) == 1
    after = {page.node_id: page for page in _scenarios(view)}
    assert after.keys() == before.keys()
    assert all(after[node_id].path == before[node_id].path for node_id in before)
    assert "blue flag" in after[changed[0].node_id].text
    assert changed[0].pre_sha256 is not None


def test_a_page_that_a_person_edited_is_left_alone() -> None:
    source = _source()
    history = source.take(_dream(source))
    path = next(path for path in source.files if path.startswith("scenarios/") and b"boat" in source.files[path])
    source.files[path] += b"\nMy own words.\n"
    source.add("s-new", ("Ann", "My boat boat boat has a blue flag boat boat."))
    view = _dream(source, history, "run-2")
    assert path not in {action.path for action in view.actions}


def test_a_page_whose_facts_are_gone_is_archived() -> None:
    source = _source()
    first = _dream(source)
    history = source.take(first)
    page = next(page for page in _scenarios(first) if "piano" in page.text)
    for path in [path for path, data in source.files.items() if path.startswith("facts/") and b"piano" in data]:
        del source.files[path]
    view = _dream(source, history, "run-2")
    (action,) = [action for action in view.actions if action.path == page.path]
    assert b"status: deprecated" in (action.content or b"")
    assert page.node_id not in {memory.node_id for memory in _scenarios(view)}


def test_profiles_hold_the_stable_facts_by_topic() -> None:
    source = FakeSource()
    source.add(
        "s1",
        ("user", "I prefer tabs over spaces. I love short functions. Always add type hints."),
        ("user", "We decided to use Postgres. We decided to drop Redis. We went with uv for packaging."),
        ("user", "Caching tokens does not work. Linking by npm is a dead end. The workaround was to pin numpy."),
    )
    view = _dream(source)
    pages = {page.title: page for page in view.memories(Level.PROFILE)}
    assert set(pages) == {"The person", "The project", "Procedures"}
    assert pages["The person"].path == "profiles/proj/the-person.md"
    assert "The user prefers tabs over spaces. [^m" in pages["The person"].text
    assert "## What does not work" in pages["Procedures"].text
    assert all(set(page.sources) for page in pages.values())
    assert _dream(source, source.take(view), "run-2").actions == []


def test_a_persons_own_page_is_never_overwritten() -> None:
    source = FakeSource()
    source.add("s1", ("user", "I prefer tabs over spaces. I love short functions. Always add type hints."))
    source.files["profiles/proj/the-person.md"] = b"---\ntype: Note\n---\n\nMine.\n"
    assert "profiles/proj/the-person.md" not in {action.path for action in _dream(source).actions}
