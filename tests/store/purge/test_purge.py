from __future__ import annotations

import errno
import os
import tempfile
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import apsw
import pytest
from dreamd.store import okf
from dreamd.store.ledger.ledger import Ledger
from dreamd.store.ledger.questions import record_question
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.model import InvalidInput, Kind, Level, NewTurn, NotFound, SessionHead, StoreBusy
from dreamd.store.okf import session
from dreamd.store.purge import erase
from dreamd.store.purge.erase import Intent
from dreamd.store.purge.plan import Selection
from dreamd.store.writer.derived import unmarked
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.store.purge.purging import CHANNEL, dream, fact, opened, page, places_with, talk
from tests.system.waiting import until

OpenStore = Callable[[], MemoryStore]

FIRST = "We chose quasarine postgres for the zephyrhall orders"
SECOND = "Deploys wait for Marbelline every Friday afternoon"
THIRD = "The vat numbers come from Oktavika in the office"


def filled(store: MemoryStore) -> dict[str, str]:
    """Fill a store with a session, two facts and a page; return the facts' ids and the page's path."""
    talk(store, "s1", [FIRST, SECOND, THIRD], title="We chose quasarine postgres")
    first, second = fact(FIRST, "s1#1"), fact(SECOND, "s1#2")
    made = page("What holds now", [first, second])
    dream(store, "20261101-090000-000000-daily-0001", [first, second, made])
    store.settle()
    return {"first": first.node_id, "second": second.node_id, "page": made.path, "path": first.path}


def text(store: MemoryStore, path: str) -> str:
    return (store.paths.vault / path).read_text()


def session_of(store: MemoryStore) -> str:
    return next(text(store, str(path)) for path in store.paths.vault.glob("sessions/**/s1.md"))


def test_what_was_purged_is_nothing_to_purge(store: MemoryStore) -> None:
    filled(store)
    assert store.purge(Selection(nodes=("s1",))).run_id is not None
    again = store.purge(Selection(nodes=("s1",)))
    assert again.run_id is None
    assert (again.sessions, again.turns) == (0, 0)
    assert store.purge(Selection(channel=CHANNEL)).run_id is None


def test_what_was_purged_is_counted_as_that_and_stays_away(store: MemoryStore) -> None:
    filled(store)
    talk(store, "s2", ["The quay is closed in May", "Invoices go out on Mondays"])
    store.settle()
    before = store.status()
    store.purge(Selection(nodes=("s1", "s2#1")))
    after = store.status()
    assert (after.turns, after.turns_purged) == (before.turns - 4, 4)
    assert after.memories["L0"] == before.memories["L0"] - 1
    turns = [NewTurn("user", said, None, f"s1-{n}") for n, said in enumerate((FIRST, SECOND, THIRD, "And one more"), 1)]
    observed = store.observe(SessionHead("s1", CHANNEL), turns).result()
    assert (observed.added, observed.known, observed.purged) == (1, 3, 3)


def test_a_purged_episode_is_named_in_no_digest(store: MemoryStore) -> None:
    talk(store, "s1", [FIRST, SECOND], title="Late orders on Friday")
    talk(store, "s2", [THIRD, "Late invoices are for Oktavika"])
    facts = [fact(FIRST, "s1#1"), fact(SECOND, "s1#2"), fact(THIRD, "s2#1")]
    gone = replace(page("Late orders on Friday", facts[:2]), level=Level.SCENARIO, kind=Kind.SCENARIO)
    gone = replace(gone, path=okf.path_for(Level.SCENARIO, gone.title, gone.node_id))
    dream(store, "20261101-090000-000000-daily-0001", [*facts, gone])
    digest = (
        f"“{gone.title}” among them.\n\n- [{gone.title}](/{gone.path}) · 2 facts\n- The vat numbers come from Oktavika"
    )
    html = f'<!doctype html>“{gone.title}”\n<li><a href="../{gone.path}">{gone.title}</a></li>\n'
    store.write_derived({"digests/2026-11-01.md": digest, "digests/2026-11-01.html": html})
    store.settle()
    assert store.purge(Selection(nodes=("s1",))).traces == ()
    left = "“[erased]” among them.\n\n- The vat numbers come from Oktavika\n"
    assert unmarked(text(store, "digests/2026-11-01.md").encode()).decode() == left
    assert store.operations.pages.derived.is_ours("digests/2026-11-01.md")
    assert gone.title not in text(store, "digests/2026-11-01.html")


def test_the_databases_are_written_anew_and_what_is_kept_beside_them_goes(
    store: MemoryStore, paths: StorePaths
) -> None:
    talk(store, "s1", [f"{FIRST} on page {number}" for number in range(60)])
    store.settle()
    beside = [paths.checkpoint, paths.ledger.with_name("ledger.salvaged-1.db"), paths.runs / "old" / "index.db"]
    for path in beside:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(FIRST)
    store.purge(Selection(nodes=("s1",)))
    databases = [Path(os.path.realpath(path)) for path in (paths.index, paths.embeddings, paths.ledger)]
    for path in databases:
        with apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY) as database:
            assert database.pragma("freelist_count") == 0
        database.close()
    assert [path.with_name(f"{path.name}-wal").stat().st_size for path in databases[:2]] == [0, 0]
    assert not any(path.exists() for path in beside)


def test_a_purged_turn_takes_with_it_what_quotes_it(store: MemoryStore, tmp_path: Path) -> None:
    made = filled(store)
    purged = store.purge(Selection(nodes=("s1#1",)))
    assert (purged.turns, purged.memories, purged.traces) == (1, 1, ())
    assert not (store.paths.vault / made["path"]).exists()
    assert places_with(tmp_path, ["quasarine", "zephyrhall"]) == []
    turns = session.parse(session_of(store).encode(), session_id="s1").turns
    assert [(turn.ordinal, turn.external_id, turn.text) for turn in turns] == [
        (1, "s1-1", session.ERASED),
        (2, "s1-2", SECOND),
        (3, "s1-3", THIRD),
    ]
    assert "Marbelline" in text(store, made["page"])


def test_what_was_purged_is_not_found_and_the_rest_is(store: MemoryStore) -> None:
    made = filled(store)
    store.purge(Selection(nodes=("s1#1",)))
    assert store.recall("quasarine postgres orders", channel=CHANNEL).abstained
    assert store.recall("erased", channel=CHANNEL).abstained
    assert SECOND in store.recall("Marbelline Friday deploys", channel=CHANNEL).hits[0].text
    with pytest.raises(NotFound):
        store.show(made["first"])
    assert store.check() == []


def test_a_turn_that_was_purged_is_not_learned_again(store: MemoryStore, tmp_path: Path) -> None:
    filled(store)
    store.purge(Selection(nodes=("s1",)))
    talk(store, "s1", [FIRST, SECOND, THIRD], title="We chose quasarine postgres")
    store.settle()
    assert places_with(tmp_path, ["quasarine", "Marbelline", "Oktavika"]) == []


def test_a_purged_fact_takes_the_turn_that_it_quotes(store: MemoryStore, tmp_path: Path) -> None:
    made = filled(store)
    store.purge(Selection(nodes=(made["second"],)))
    assert places_with(tmp_path, ["Marbelline"]) == []
    assert "zephyrhall" in session_of(store)


def test_no_undo_brings_it_back(store: MemoryStore, tmp_path: Path) -> None:
    made = filled(store)
    purged = store.purge(Selection(nodes=("s1#1",)))
    undone = store.undo("20261101-090000-000000-daily-0001")
    assert undone.skipped == ()
    assert not (store.paths.vault / made["page"]).exists()
    assert places_with(tmp_path, ["quasarine", "zephyrhall"]) == []
    assert purged.run_id is not None
    with pytest.raises(InvalidInput, match="cannot be undone"):
        store.undo(purged.run_id)


def test_the_rest_of_a_run_can_be_undone_all_the_same(store: MemoryStore) -> None:
    made = filled(store)
    before = text(store, made["page"])
    store.purge(Selection(nodes=("s1#3",)))
    assert text(store, made["page"]) == before
    assert store.undo("20261101-090000-000000-daily-0001").restored == 3


def test_what_was_forgotten_is_purged_from_the_history(store: MemoryStore, tmp_path: Path) -> None:
    node_id = store.remember("The vault code is written down by Perpetua", channel=CHANNEL).result()
    forgotten = store.forget(node_id)
    assert places_with(tmp_path, ["Perpetua"])
    store.purge(Selection(nodes=(node_id,)))
    assert places_with(tmp_path, ["Perpetua"]) == []
    assert store.undo(forgotten.run_id).restored == 0


def test_what_a_person_deleted_by_hand_is_purged_from_the_history(store: MemoryStore, tmp_path: Path) -> None:
    made = filled(store)
    (store.paths.vault / made["path"]).unlink()
    store.reconcile()
    store.settle_deletions()
    store.purge(Selection(nodes=(made["first"],)))
    assert places_with(tmp_path, ["quasarine"]) == []


def test_questions_about_it_go(store: MemoryStore, tmp_path: Path) -> None:
    filled(store)
    store.recall("who chose quasarine postgres for orders?", channel=CHANNEL)
    store.recall("who do the deploys wait for every Friday?", channel=CHANNEL)
    store.operations.feedback.settle(5)
    store.purge(Selection(nodes=("s1#1",)))
    assert [asked.text for asked in store.ledger.asked()] == ["who do the deploys wait for every Friday?"]
    assert places_with(tmp_path, ["quasarine"]) == []


def test_the_history_says_that_something_was_purged_and_not_what(store: MemoryStore) -> None:
    filled(store)
    purged = store.purge(Selection(nodes=("s1#1",)))
    run = store.runs(1, kinds=["purge"])[0]
    assert (run.run_id, run.state) == (purged.run_id, "applied")
    assert run.summary["note"] == "purged for good; turns: 1, memories: 1"


@pytest.mark.parametrize(
    "selection",
    [
        Selection(channel=CHANNEL),
        Selection(matching="for the ZEPHYRHALL orders"),
        Selection(nodes=("s1",)),
    ],
)
def test_what_is_selected_goes_and_what_is_not_stays(store: MemoryStore, tmp_path: Path, selection: Selection) -> None:
    filled(store)
    others = [
        store.remember(f"In {channel} they use Ferrazine for their builds", channel=channel).result()
        for channel in ("other", f"{CHANNEL}/spike", f"{CHANNEL}/spike/~s2")
    ]
    if selection.channel:
        store.remember("For now the zephyrhall orders are stopped", channel=f"{CHANNEL}/~s2").result()
    store.purge(selection)
    assert places_with(tmp_path, ["quasarine", "zephyrhall"]) == []
    assert all("Ferrazine" in store.show(node_id).text for node_id in others)


def test_everything_before_a_day_goes(store: MemoryStore, tmp_path: Path) -> None:
    filled(store)
    store.remember("Written today about Ferrazine and its builds", channel=CHANNEL).result()
    store.purge(Selection(before=okf.instant("2026-11-02")))
    assert places_with(tmp_path, ["quasarine", "Marbelline", "Oktavika"]) == []
    assert places_with(store.paths.vault, ["Ferrazine"])


def test_nothing_is_changed_by_a_preview(store: MemoryStore) -> None:
    made = filled(store)
    preview = store.preview_purge(Selection(nodes=("s1#1",)))
    assert (preview.turns, preview.memories, preview.files_removed, preview.files_changed) == (1, 1, 1, 2)
    assert FIRST in preview.titles
    assert (store.paths.vault / made["path"]).exists()


def test_a_preview_and_a_purge_report_each_step_and_the_proof_to_its_end(store: MemoryStore) -> None:
    filled(store)
    seen: list[tuple[str, int, int]] = []
    store.preview_purge(Selection(nodes=("s1",)), lambda *at: seen.append(at))
    assert {step for step, _, _ in seen} == {"plan"}
    store.purge(Selection(nodes=("s1",)), lambda *at: seen.append(at))
    steps = ["plan", "files", "history", "index", "pages", "caches", "compact", "search"]
    assert list(dict.fromkeys(step for step, _, _ in seen)) == steps
    assert seen[-1] == ("search", seen[-1][2], seen[-1][2])


def test_a_purge_names_what_says_the_same_and_takes_kept_ledgers_whole(store: MemoryStore, paths: StorePaths) -> None:
    said = f"{FIRST} because its constraints are good"
    talk(store, "s1", [said])
    talk(store, "s2", [f"As I said: {said}"])
    kept = paths.ledger.with_name("ledger.salvaged-1.db")
    kept.write_bytes(said.encode())
    preview = store.preview_purge(Selection(nodes=("s1#1",)))
    assert preview.repeated_in == ("s2#1",)
    assert preview.copies == (kept.name,)
    store.purge(Selection(nodes=("s1#1",)))
    assert not kept.exists()
    assert said in store.show("s2#1").text


def test_a_preview_lists_what_goes_and_what_falls_with_it(store: MemoryStore) -> None:
    filled(store)
    made = store.preview_purge(Selection(nodes=("s1#1",)))
    listed = {(one.because, one.kind, one.goes) for one in made.items}
    (named,) = [one for one in made.items if one.because == "named"]
    assert (named.node_id, named.kind, named.channel) == ("s1#1", "turn", CHANNEL)
    assert named.title
    assert named.created_at is not None
    assert ("drawn", "decision", True) in listed
    assert any(because == "quotes" for because, _, _ in listed)
    assert len({one.node_id for one in made.items}) == len(made.items)
    assert store.purge(Selection(nodes=("s1#1",))).items == ()  # nothing of it is told when it is gone


def test_a_node_that_is_nowhere_is_refused(store: MemoryStore) -> None:
    filled(store)
    with pytest.raises(NotFound):
        store.purge(Selection(nodes=("nothing",)))
    with pytest.raises(InvalidInput):
        store.purge(Selection(matching="…"))


def test_no_dream_begins_while_a_purge_waits_to_be_finished(store: MemoryStore) -> None:
    store.operations.purge.intent.write({})
    with pytest.raises(StoreBusy, match="purge"):
        store.refuse_to_dream()


def test_a_secret_that_was_only_asked_is_purged(store: MemoryStore, tmp_path: Path) -> None:
    filled(store)
    key = "ghp_" + "aB3dE5fG7h" * 4
    at = okf.instant("2026-11-20")
    assert at is not None
    store.ledger.commit([], [record_question(f"what is {key} for", None, [], near=True, at=at)])
    assert store.preview_purge(Selection(secrets=True)).secrets == 1
    assert store.purge(Selection(secrets=True)).traces == ()
    assert places_with(tmp_path, [key]) == []


def test_a_preview_of_secrets_names_the_files_without_them(store: MemoryStore) -> None:
    key = "ghp_" + "aB3dE5fG7h" * 4
    for name in ("servers", key):
        (store.paths.vault / f"{name}.md").write_text(f"key {key}\n")
    store.reconcile()
    assert sorted(store.preview_purge(Selection(secrets=True)).titles) == ["[redacted:github].md", "servers.md"]


def test_a_purge_that_cannot_be_finished_now_is_finished_by_itself(
    store: MemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(store)
    monkeypatch.setattr(erase, "AGAIN_S", 0.01)
    fails = [OSError(errno.ENOSPC, "no room")] * erase.ROUNDS

    def compact(ledger: Ledger, original: Callable[[Ledger], None] = Ledger.compact) -> None:
        if fails:
            raise fails.pop()
        original(ledger)

    monkeypatch.setattr(Ledger, "compact", compact)
    with pytest.raises(StoreBusy, match="the disk is full"):
        store.purge(Selection(nodes=("s1#1",)))
    until(lambda: not store.operations.purge.intent.is_there)
    assert places_with(tmp_path, ["quasarine", "zephyrhall"]) == []
    assert not any("purge" in problem for problem in store.status().problems)


def test_a_page_that_a_person_edited_stays_one(store: MemoryStore) -> None:
    made = filled(store)
    path = store.paths.vault / made["page"]
    path.write_text(text(store, made["page"]) + "\n- and a line of mine\n")
    store.reconcile()
    store.purge(Selection(nodes=("s1#1",)))
    document = okf.parse(path.read_bytes())
    assert "a line of mine" in document.body
    assert "quasarine" not in document.body
    assert document.meta["level"] == Level.PROFILE


LETTERS = "abcdefghijklmnopqrstuvwxyzæøåßéñöчжд語"
NAMES = st.text(LETTERS, min_size=8, max_size=12)


@settings(max_examples=examples(12), deadline=None)
@given(names=st.lists(NAMES, min_size=4, max_size=4, unique=True), data=st.data())
def test_no_byte_holds_a_word_of_any_node_that_was_purged(names: list[str], data: st.DataObject) -> None:
    names = [f"{name}{'qwzx'[number]}{number}qx" for number, name in enumerate(names)]
    said = [f"The {name} is where {name.title()} puts the orders of the day" for name in names]
    with tempfile.TemporaryDirectory() as folder:
        store = opened(Path(folder))
        talk(store, "s1", said[:3], title=said[0])
        first, second = fact(said[0], "s1#1"), fact(said[1], "s1#2")
        made = page(f"About {names[1]}", [first, second])
        dream(store, "20261101-090000-000000-daily-0001", [first, second, made])
        note = store.remember(said[3], channel=CHANNEL).result()
        store.recall(f"what is {names[0]} for and what is {names[3]} for?", channel=CHANNEL)
        held = {"s1#1": 0, "s1#2": 1, "s1#3": 2, first.node_id: 0, second.node_id: 1, note: 3}
        node_id = data.draw(st.sampled_from(sorted(held)))
        if data.draw(st.booleans()):
            store.forget(node_id)
        store.purge(Selection(nodes=(node_id,)))
        gone = names.pop(held[node_id])
        store.close()
        assert places_with(Path(folder), [gone, gone.title()]) == []
        assert len({place.partition(": ")[2] for place in places_with(Path(folder) / "vault", names)}) == 3


def test_a_word_that_a_person_or_another_title_uses_too_is_left(store: MemoryStore) -> None:
    made = filled(store)
    talk(store, "s2", ["Something else"], title="Zephyrhall, clocks and more")
    path = store.paths.vault / made["page"]
    path.write_text(text(store, made["page"]) + "\n- quasarine is what I chose myself\n")
    store.reconcile()
    store.purge(Selection(nodes=("s1#1",)))
    assert "- quasarine is what I chose myself" in path.read_text()
    assert store.show("s2").title == "Zephyrhall, clocks and more"
    assert "zephyrhall" not in path.read_text()


def test_paths_and_ids_are_no_secrets(store: MemoryStore) -> None:
    made = filled(store)
    before = text(store, made["page"])
    store.purge(Selection(secrets=True))
    assert text(store, made["page"]) == before


def test_a_secret_in_a_name_goes_too(store: MemoryStore, tmp_path: Path) -> None:
    key = "ghp_" + "ab3de5fg7h" * 4
    made = fact(f"The key {key} opens the office", "s1#1")
    path = store.paths.vault / made.path
    talk(store, "s1", [FIRST])
    path.parent.mkdir(parents=True)
    path.write_bytes(okf.from_memory(made))
    store.reconcile()
    assert store.purge(Selection(secrets=True)).traces == ()
    assert places_with(tmp_path, [key, key.removeprefix("ghp_")]) == []
    (kept,) = store.paths.vault.glob(f"**/*-{made.node_id[:6]}.md")
    assert kept.name.startswith("key-ghp-erased")
    assert "opens the office" in store.show(made.node_id).text
    assert store.check() == []


def test_only_the_secret_goes(store: MemoryStore, tmp_path: Path, paths: StorePaths) -> None:
    filled(store)
    path = next(store.paths.vault.glob("sessions/**/s1.md"))
    key = "ghp_" + "aB3dE5fG7h" * 4
    path.write_text(path.read_text().replace("Oktavika in the office", f"Oktavika, key {key} then"))
    store.reconcile()
    assert places_with(tmp_path, [key])
    purged = store.purge(Selection(secrets=True))
    assert (purged.secrets, purged.traces) == (1, ())
    assert places_with(tmp_path, [key]) == []
    assert "Oktavika, key [redacted:github] then" in path.read_text()


def test_a_secret_that_only_the_title_shows_goes_from_the_text_too(store: MemoryStore, tmp_path: Path) -> None:
    secret = "Kettle" + "94Tulip"
    path = "facts/box.md"
    head = f'---\ntype: Fact\nnode_id: box1\ntitle: "the password of the box is {secret}"\n---\n'
    by_hand(store, path, f"{head}We say {secret} on Mondays.\n")
    purged = store.purge(Selection(secrets=True))
    assert (purged.secrets, purged.traces) == (1, ())
    assert places_with(tmp_path, [secret]) == []
    assert "We say [redacted:secret] on Mondays." in (store.paths.vault / path).read_text()


# ---- what no index holds, and what is no memory

WORD = "quagmirex"
MATCHING = Selection(matching=WORD)


def by_hand(store: MemoryStore, path: str, content: str) -> Path:
    """Write a file into the vault, and have it read."""
    file = store.paths.vault / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)
    store.reconcile()
    return file


def test_a_copied_file_with_a_doubled_id_goes_and_the_first_stays(store: MemoryStore, tmp_path: Path) -> None:
    node_id = store.remember("A harmless fact of the harbour.", channel=CHANNEL).result()
    first = store.paths.vault / store.show(node_id).path
    by_hand(store, "facts/copy.md", first.read_text().replace("A harmless fact of the harbour.", f"It is {WORD}."))
    assert store.purge(MATCHING).files_removed == 1
    assert places_with(tmp_path, [WORD]) == []
    assert store.show(node_id).text == "A harmless fact of the harbour."


def test_a_session_loses_the_turn_of_its_second_file_and_keeps_its_own(store: MemoryStore, tmp_path: Path) -> None:
    talk(store, "s1", ["The boat lies in the harbour", "And it is green"])
    store.settle()
    first = store.paths.vault / store.show("s1").path
    second = first.read_text().replace("The boat lies in the harbour", f"The name of it is {WORD}")
    by_hand(store, "sessions/2026/11/02/s1.md", second)
    assert store.purge(MATCHING).traces == ()
    assert places_with(tmp_path, [WORD]) == []
    told = [turn.text for turn in store.catalog.turns("s1")]
    assert told == ["The boat lies in the harbour", "And it is green", session.ERASED]


def test_a_note_goes_for_what_it_says_beyond_what_is_searched(store: MemoryStore, tmp_path: Path) -> None:
    by_hand(store, "notes/long.md", "harbour " * 2**18 + WORD)
    assert store.purge(MATCHING).files_removed == 1
    assert places_with(tmp_path, [WORD]) == []


@pytest.mark.parametrize("place", ["title", "tag", "speaker", "page", "broken"])
def test_a_word_that_stands_beside_what_was_said_goes_too(store: MemoryStore, tmp_path: Path, place: str) -> None:
    if place == "title":
        talk(store, "s1", ["The boat is green"], title=f"About {WORD}")
    elif place == "tag":
        store.tag(store.remember("The boat is green", channel=CHANNEL).result(), [WORD])
    elif place == "speaker":
        store.observe(SessionHead("s1", CHANNEL), [NewTurn(WORD, "The boat is green")]).result()
    elif place == "page":
        made = filled(store)
        by_hand(store, made["page"], text(store, made["page"]) + f"\n- a line about {WORD}\n")
    else:
        by_hand(store, "facts/broken.md", f"---\ntitle: [unclosed\n---\nThe word is {WORD} here.\n")
    store.settle()
    done = store.purge(MATCHING)
    assert (done.run_id is not None, done.traces) == (True, ())
    assert places_with(tmp_path, [WORD]) == []


@pytest.mark.parametrize("selection", [MATCHING, Selection(secrets=True)], ids=["word", "secrets"])
@pytest.mark.parametrize("name", [".hidden.txt", "list.csv", ".obsidian/app.json"])
@pytest.mark.parametrize("is_a_memory_too", [False, True])
def test_what_is_no_memory_is_left_and_named(
    store: MemoryStore, selection: Selection, name: str, is_a_memory_too: bool
) -> None:
    said = "password = Kq7vB2xT9mLw4rZs\n" if selection.secrets else f"the {WORD}\n"
    if is_a_memory_too:
        by_hand(store, "notes/mine.md", said)
    file = by_hand(store, name, said)
    done = store.purge(selection)
    assert (done.run_id is not None) == is_a_memory_too
    assert [line for line in done.out_of_reach if name in line] == [f"{file} is left as it is, and holds some of it."]
    assert file.read_text() == said


def test_no_pipe_device_or_link_in_the_vault_holds_up_a_purge(store: MemoryStore, tmp_path: Path) -> None:
    talk(store, "s1", [FIRST])
    store.settle()
    notes = store.paths.vault / "notes"
    notes.mkdir()
    os.mkfifo(notes / "pipe.md")
    os.mkfifo(notes / ".dreamd-1-1.aside.tmp")
    (notes / "loop.md").symlink_to("loop.md")
    (notes / "zero").symlink_to("/dev/zero")
    (notes / "outside").symlink_to("/usr")
    store.purge(Selection(nodes=("s1",)))
    assert places_with_in_files(tmp_path, ["quasarine"]) == []


def places_with_in_files(folder: Path, words: list[str]) -> list[str]:
    """Search the files that can be read to their end."""
    for path in [path for path in folder.rglob("*") if path.is_symlink() or path.is_fifo()]:
        if path.parent.name == "notes":
            path.unlink()
    return places_with(folder, words)


def test_a_purged_session_keeps_no_name_of_its_agent_task_and_user(store: MemoryStore, tmp_path: Path) -> None:
    names = ["zorblattone", "zorblatttwo", "zorblattthree"]
    head = SessionHead("s1", CHANNEL, agent_id=names[0], task_id=names[1], user_id=names[2], cwd="/src/zorblattfour")
    store.observe(head, [NewTurn("user", "hello there")]).result()
    store.settle()
    store.purge(Selection(nodes=("s1",)))
    assert places_with(tmp_path, [*names, "zorblattfour"]) == []


def test_a_document_is_purged_by_any_id_that_it_had(store: MemoryStore, tmp_path: Path) -> None:
    for name in ("first", "last"):
        stored = store.put_document(("n",), "old", f"The {WORD} document.", channel=CHANNEL)
        store.rename_document(("n",), "old", "new")
        store.rename_document(("n",), "new", "newest")
        found = store.document(("n",), "newest")
        assert found is not None
        store.settle()
        store.purge(Selection(nodes=(stored.node_id if name == "first" else found.node_id,)))
        assert places_with(tmp_path, [WORD]) == []


def test_a_purge_waits_for_an_index_that_is_being_made_anew(store: MemoryStore, tmp_path: Path) -> None:
    talk(store, "s1", [FIRST])
    store.settle()
    has_read, go_on = threading.Event(), threading.Event()

    def pause(done: int, total: int) -> None:
        has_read.set()
        go_on.wait()

    rebuilding = threading.Thread(target=store.rebuild, args=(pause,))
    rebuilding.start()
    has_read.wait()
    steps: list[str] = []
    reached = threading.Event()

    def note(step: str, done: int, total: int) -> None:
        steps.append(step)
        if step == "index":
            reached.set()

    purging = threading.Thread(target=store.purge, args=(Selection(nodes=("s1",)), note))
    purging.start()
    assert reached.wait(60)
    assert store.core.is_purging
    go_on.set()
    purging.join()
    rebuilding.join()
    assert steps[-1] == "search"
    assert places_with(tmp_path, ["quasarine", "zephyrhall"]) == []


def test_a_purge_that_cannot_be_written_down_changes_nothing(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(store)

    def no_room(intent: object) -> None:
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr(store.operations.purge.intent, "write", no_room)
    with pytest.raises(StoreBusy, match="written down"):
        store.purge(Selection(nodes=("s1#1",)))
    assert not store.core.is_purging
    assert FIRST in session_of(store)


def test_a_purge_that_was_written_down_though_its_disk_failed_goes_on_by_itself(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(store)
    intent = store.operations.purge.intent
    write = intent.write

    def written_and_not_synced(found: dict[str, object]) -> None:
        write(found)
        raise OSError(errno.EIO, "it cannot be synced")

    monkeypatch.setattr(intent, "write", written_and_not_synced)
    with pytest.raises(StoreBusy, match="written down"):
        store.purge(Selection(nodes=("s1#1",)))
    until(lambda: not intent.is_there)
    assert FIRST not in session_of(store)


def test_a_start_waits_for_a_purge_that_cannot_be_read(open_store: OpenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store()
    filled(store)

    def interrupted(*_: object) -> None:
        raise StoreBusy("the process ends here")

    monkeypatch.setattr(store.operations.purge, "_carry_out", interrupted)
    with pytest.raises(StoreBusy):
        store.purge(Selection(nodes=("s1#1",)))
    store.close()
    read, failures = Intent.read, iter([OSError(errno.EIO, "it cannot be read")])

    def read_at_last(intent: Intent) -> dict[str, object] | None:
        if (failure := next(failures, None)) is not None:
            raise failure
        return read(intent)

    monkeypatch.setattr(Intent, "read", read_at_last)
    again = open_store()
    until(lambda: not again.operations.purge.intent.is_there)
    assert FIRST not in session_of(again)
