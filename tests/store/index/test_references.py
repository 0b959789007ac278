"""Links that the texts of notes hold: looked up when they are asked for, both ways, in reach of their channel."""

from __future__ import annotations

from typing import Any

from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.memory import MemoryStore
from dreamd.store.model import Kind
from dreamd.store.search.question import Question
from dreamd.store.settings import SearchSettings, StorePaths, StoreSettings

from tests.store.conftest import NOW


def write(store: MemoryStore, **notes: str) -> dict[str, str]:
    """Write notes into the vault as an editor does; return their ids by name."""
    for name, text in notes.items():
        path = store.paths.vault / f"{name.replace('__', '/')}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    store.reconcile()
    return {name: store.full_id(f"{name.replace('__', '/')}.md") for name in notes}


def links(store: MemoryStore, node_id: str) -> set[tuple[str, str]]:
    shown = store.show(node_id)
    return {(one.node_id, "to" if one.out else "from") for one in shown.links if one.relation == "LinksTo"}


def dead(store: MemoryStore) -> list[tuple[str, str]]:
    return [(one.path, one.problem) for one in store.check() if "links to" in one.problem]


def test_a_link_is_seen_from_both_ends(store: MemoryStore) -> None:
    ids = write(
        store,
        oven="# Oven\n\nIt is heated for [[rye bread|rye]] and for [buns](/notes/buns.md).",
        notes__Rye_bread="Baked on Mondays, in the [[OVEN]].",
        notes__buns="Six a tray, next to [rye](Rye_bread.md).",
    )
    rye, oven, buns = ids["notes__Rye_bread"], ids["oven"], ids["notes__buns"]
    assert links(store, oven) == {(rye, "to"), (buns, "to"), (rye, "from")}
    assert links(store, rye) == {(oven, "to"), (oven, "from"), (buns, "from")}
    assert links(store, buns) == {(oven, "from"), (rye, "to")}
    assert dead(store) == []


def test_a_link_is_found_whichever_file_comes_first_and_goes_with_its_words(store: MemoryStore) -> None:
    ids = write(store, oven="Heated for [[Rye bread]].")
    assert links(store, ids["oven"]) == set()
    assert dead(store) == [("oven.md", "it links to [[Rye bread]], which is not there")]
    ids |= write(store, dough="---\ntitle: Rye bread\n---\nIt rises overnight.")
    assert links(store, ids["oven"]) == {(ids["dough"], "to")}
    write(store, oven="Heated for nothing in particular.")
    assert links(store, ids["dough"]) == set()


def test_a_name_of_two_memories_is_no_edge(store: MemoryStore) -> None:
    ids = write(store, oven="See [[Rye]].", a__rye="One kind.", b__rye="Another kind.")
    assert links(store, ids["oven"]) == set()
    assert dead(store) == [("oven.md", "it links to [[Rye]], which 2 memories are called")]
    write(store, oven="See [[a/rye]].")
    assert links(store, ids["oven"]) == {(ids["a__rye"], "to")}


def test_a_link_stays_in_reach_of_its_channel(store: MemoryStore) -> None:
    def note(title: str, channel: str, text: str) -> Any:
        kept = store.take_note(
            text, kind=Kind.NOTE, channel=channel, tags=(), title=title, created_at=None, alias=f"{title} file"
        )
        return kept.result().node_id

    own = note("Oven", "bakery", "It is for [[Rye]] and [[Salt]].")
    rye, elsewhere = note("Rye", "bakery", "Ground on Mondays."), note("Rye", "mill", "Ground for [[Oven]].")
    salt = note("Salt", "_global", "From the sea, see [[Oven]].")
    assert store.settle()
    assert links(store, own) == {(rye, "to"), (salt, "to")}
    assert (links(store, elsewhere), links(store, salt)) == (set(), set())


def test_an_imported_note_is_found_by_the_name_of_its_file(store: MemoryStore) -> None:
    def note(title: str, alias: str, text: str) -> str:
        given: Any = {"kind": Kind.NOTE, "channel": "bakery", "tags": (), "created_at": None}
        return store.take_note(text, title=title, alias=alias, **given).result().node_id

    one = note("The oven", "oven", "See [rye](rye.md).")
    other = note("Rye bread", "rye", "See [[oven]].")
    assert store.settle()
    assert links(store, one) == {(other, "to"), (other, "from")}


def test_a_question_is_answered_over_a_link(paths: StorePaths) -> None:
    store = MemoryStore.open(
        paths, StoreSettings(backend="files", search=SearchSettings(follow_links=True)), StubEmbedder(), lambda: NOW
    )  # by words alone
    notes = {"export": "The export job runs on [[Heron]].", "Heron": "Sixteen gigabytes, looked after by [[Ilse]]."}
    ids = write(store, **notes, Ilse="Phone until five.", Otto="Phone until six.", shelf="Painted blue, see [[Otto]].")

    def found() -> list[str]:
        return [one.unit for one in store.rank(Question(text="export job", channel="_global")).candidates]

    assert found()[0] == ids["export"]
    assert {ids["Heron"], ids["Ilse"]} <= {*found()}
    recalled = store.recall("export job", channel="_global", explain=True)
    over = {one["unit"]: one.get("over") for one in recalled.trace["candidates"]}
    assert (over[ids["Heron"]], over[ids["Ilse"]]) == (ids["export"], ids["Heron"])
    store.forget(ids["Heron"])
    assert ids["Heron"] not in found()
    store.close()
