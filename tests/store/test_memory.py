"""The face of the store: what is kept is found, what is taken back is not, and what was is as it was after an undo."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from threading import Event

import pytest
from dreamd.store.embedding.embedding import ModelUnavailable, StubEmbedder
from dreamd.store.embedding.fastembed_loading import PREPARED_ID
from dreamd.store.engine.interface import Vector
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.model import (
    Action,
    ActionKind,
    Changeset,
    InvalidInput,
    Kind,
    Level,
    NewTurn,
    NotFound,
    SessionHead,
    StoreReadOnly,
)
from dreamd.store.roles import Role
from dreamd.store.settings import StoreSettings

from tests.memories import facts_in
from tests.system.waiting import until

OpenStore = Callable[[], MemoryStore]
AT = datetime(2026, 11, 1, 9, 0, tzinfo=UTC)


def talk(store: MemoryStore, session_id: str = "s1", channel: str = "shop", *texts: str) -> None:
    turns = [NewTurn("user", text, AT + timedelta(minutes=n), f"{session_id}-{n}") for n, text in enumerate(texts)]
    store.observe(SessionHead(session_id, channel, started_at=AT), turns).result()


def found(store: MemoryStore, query: str, channel: str | None = "shop") -> list[str]:
    return [hit.node_id for hit in store.recall(query, channel=channel).hits]


def files(store: MemoryStore) -> dict[str, bytes]:
    store.list()  # waits for what was acknowledged
    root = store.paths.vault
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*.md")}


def test_what_is_remembered_is_found_at_once(store: MemoryStore) -> None:
    node_id = store.remember("Deploys go through Jenkins", kind=Kind.PROCEDURE, channel="shop").result()
    hit = store.recall("How do deploys work?", channel="shop").hits[0]
    assert (hit.node_id, hit.kind, hit.level, hit.text) == (
        node_id,
        Kind.PROCEDURE,
        Level.FACT,
        "Deploys go through Jenkins",
    )


def test_the_same_content_is_one_memory_a_channel(store: MemoryStore) -> None:
    first = store.remember("Tabs, not spaces", channel="shop").result()
    again = store.remember("  Tabs,  not spaces ", channel="shop").result()
    elsewhere = store.remember("Tabs, not spaces", channel="other").result()
    assert first == again != elsewhere


def test_a_turn_is_evidence_of_itself_and_known_by_its_external_id(store: MemoryStore) -> None:
    talk(store, "s1", "shop", "We chose Postgres for the bookings", "ok")
    observed = store.observe(
        SessionHead("s1", "shop", started_at=AT),
        [NewTurn("user", "We chose Postgres for the bookings", AT, "s1-0"), NewTurn("user", "ok", AT, "new")],
    ).result()
    assert (observed.added, observed.known) == (1, 1)
    hit = store.recall("Postgres bookings", channel="shop").hits[0]
    assert [(e.node_id, e.external_id) for e in hit.evidence] == [("s1#1", "s1-0")]
    assert [turn.text for turn in store.catalog.turns("s1")][1:] == ["ok", "ok"]


def test_a_repeated_ok_without_an_id_is_two_turns(store: MemoryStore) -> None:
    head = SessionHead("s1", "shop", started_at=AT)
    for _ in range(2):
        store.observe(head, [NewTurn("user", "ok", AT)]).result()
    store.show("s1")
    assert [turn.ordinal for turn in store.catalog.turns("s1")] == [1, 2]


def test_projects_do_not_leak_into_each_other(store: MemoryStore) -> None:
    store.remember("The launch code is heron", channel="secret-project").result()
    everywhere = store.remember("The launch party is on Friday").result()
    assert found(store, "launch", "shop") == [everywhere]
    assert found(store, "launch", None) == [everywhere]
    assert len(found(store, "launch", "*")) == 2


def test_secrets_reach_no_file(store: MemoryStore, paths: StorePaths) -> None:
    secret = "AKIA" + "IOSFODNN7QRSTUVW"
    store.remember(f"The key is {secret}", channel="shop").result()
    talk(store, "s1", "shop", f"export AWS_ACCESS_KEY_ID={secret}")
    store.close()
    everything = b"".join(path.read_bytes() for path in paths.vault.parent.rglob("*") if path.is_file())
    assert secret.encode() not in everything


def test_nothing_to_remember_is_an_error_that_says_so(store: MemoryStore) -> None:
    with pytest.raises(InvalidInput, match="no text"):
        store.remember("  \n")


def test_forget_is_undone_byte_for_byte(store: MemoryStore, paths: StorePaths) -> None:
    node_id = store.remember("The printer is haunted", channel="shop").result()
    store.show(node_id)
    before = files(store)
    forgotten = store.forget(node_id)
    assert node_id not in found(store, "printer")
    with pytest.raises(NotFound):
        store.show(node_id)
    store.undo(forgotten.run_id)
    assert files(store) == before
    assert node_id in found(store, "printer")


def test_a_forgotten_turn_stays_in_its_file_and_is_found_no_more(
    store: MemoryStore, open_store: OpenStore, paths: StorePaths
) -> None:
    talk(store, "s1", "shop", "The wifi password is on the fridge")
    before = files(store)
    forgotten = store.forget("s1#1")
    assert store.run(forgotten.run_id).state == "applied"
    store.reconcile()  # the index, which the count is of, has followed by then
    status = store.status()
    assert (status.turns, status.turns_purged, status.turns_forgotten) == (0, 0, 1)
    assert found(store, "wifi fridge") == []
    assert files(store) == before
    store.rebuild()
    assert found(store, "wifi fridge") == []
    store.close()
    store = open_store()
    assert found(store, "wifi fridge") == []
    assert store.undo(forgotten.run_id).turns == 1
    assert store.status().turns_forgotten == 0
    assert found(store, "wifi fridge") == ["s1#1"]


GERMAN = "Der nächtliche Export Nummer {} ist schon wieder an der Sicherung gescheitert"
ENGLISH = "The nightly export number {} has failed again because of the backup and the disk"


@pytest.mark.parametrize(
    ("made_by", "german", "english", "advises"),
    [(PREPARED_ID, 20, 5, True), (PREPARED_ID, 10, 15, False), (PREPARED_ID, 19, 0, False), ("another", 20, 0, False)],
    ids=["mostly german", "mostly english", "few turns", "another model"],
)
def test_status_advises_the_multilingual_model_where_most_turns_are_not_english(
    paths: StorePaths, made_by: str, german: int, english: int, advises: bool
) -> None:
    embedder = StubEmbedder()
    embedder.model_id = made_by
    with closing(MemoryStore.open(paths, StoreSettings(), embedder, lambda: AT)) as store:
        talk(store, "s1", "shop", *(GERMAN.format(n) for n in range(german)), "ja, mach das")
        talk(store, "s2", "shop", *(ENGLISH.format(n) for n in range(english)), "ok")
        store.reconcile()
        advice = store.status().embedding.advice
    assert bool(advice) == advises
    assert not advises or 'store.embedding.model = "multilingual"' in advice


DEVELOPERS = {
    "en": (
        "can we also show the branch name in `shop session list`? it is in the head of each session anyway",
        "the issue is now of course that we haven't fetched the remote branches, so the cli can't find them",
        "ran `go test ./...` again, still red:\n--- FAIL: TestBranchHint (0.02s)\n    session_test.go:118: got nil",
        "rebase this onto main and rerun golangci-lint, I think the unused import is gone by then",
        "Do we need the change in README.md at all then? otherwise I would drop that commit",
        "docker compose up -d postgres && pytest -q tests/orders -x --maxfail=1 2>&1 | tail -20",
    ),
    "de": (
        "kannst du in `shop session list` auch den Branch anzeigen? der steht doch im Kopf jeder Session",
        "das Problem ist jetzt natürlich, dass wir die Remote-Branches nicht geholt haben",
        "`go test ./...` ist immer noch rot:\n--- FAIL: TestBranchHint (0.02s)\n    session_test.go:118: got nil",
        "mach bitte einen Rebase auf main und lass golangci-lint nochmal laufen, der Import ist dann weg",
        "Brauchen wir die Änderung in der README.md dann überhaupt noch? sonst werfe ich den Commit weg",
        "docker compose up -d postgres && pytest -q tests/orders -x --maxfail=1 2>&1 | tail -20",
    ),
}
AGENT = (
    (
        Role.ASSISTANT,
        "[Edit /home/ann/shop/cmd/cli/strategy/session.go\n- description := commit(repo, cp.CheckpointID)]",
    ),
    (Role.ASSISTANT, "[Bash: mise run test:integration 2>&1 | tail -20 | grep FAIL]"),
    (Role.TOOL, "[Bash result]\n[lint] $ golangci-lint run ./...\n0 issues.\n[test] ok cmd/cli 1.914s (cached)"),
    (Role.TOOL, "[Bash result]\n1109 /home/ann/shop/cmd/cli/strategy/common.go\n  88 /home/ann/shop/go.mod"),
)


@pytest.mark.parametrize(("language", "advises"), [("en", False), ("de", True)])
def test_the_language_is_that_of_people_and_not_of_their_tools(paths: StorePaths, language: str, advises: bool) -> None:
    embedder = StubEmbedder()
    embedder.model_id = PREPARED_ID
    said = [one for text in DEVELOPERS[language] * 5 for one in ((Role.USER, text), *AGENT)]
    turns = [NewTurn(role, text, AT + timedelta(minutes=n), f"s1-{n}") for n, (role, text) in enumerate(said)]
    with closing(MemoryStore.open(paths, StoreSettings(), embedder, lambda: AT)) as store:
        store.observe(SessionHead("s1", "shop", started_at=AT), turns).result()
        store.reconcile()
        assert bool(store.status().embedding.advice) == advises


def test_what_rests_on_a_forgotten_turn_alone_goes_with_it(store: MemoryStore) -> None:
    talk(store, "s1", "shop", "The alarm tune is 4711", "The alarm rings at six")
    store.apply(changeset("run-1", "The alarm tune is 4711"))
    store.settle()
    forgotten = store.forget("s1#1")
    assert forgotten.also == ("run-1-0",)
    assert found(store, "alarm tune") == ["s1#2"]
    store.undo(forgotten.run_id)
    assert "run-1-0" in found(store, "alarm tune")


def test_a_status_counts_what_is_kept_by_level_and_by_channel(store: MemoryStore) -> None:
    talk(store, "s1", "shop", "The kettle is on the left", "The lamp is on the right", "ok")
    for text, channel in (("Tabs, not spaces", "shop"), ("Tea is at five", "home")):
        store.remember(text, channel=channel).result()
    store.rebuild()
    until(lambda: store.status().journal == 0)
    status = store.status()
    assert status.memories == {"L0": 1, "L1": 2, "L2": 0, "L3": 0}
    assert (status.files, status.turns, status.turns_purged, status.turns_forgotten) == (3, 3, 0, 0)
    assert status.channels == {"shop": 4, "home": 1}
    assert (status.chunks, status.pending_embeddings, status.journal, status.not_found_yet) == (5, 0, 0, 0)
    assert (status.runs, status.broken_files, status.paused, status.channels_off) == (0, 0, False, [])
    store.set_channel("home", learning=False)
    store.pause()
    assert (store.status().paused, store.status().channels_off) == (True, ["home"])


def test_what_was_forgotten_of_a_session_is_shown_and_listed_nowhere(store: MemoryStore) -> None:
    talk(store, "s1", "shop", "The alarm tune is 4711", "The kettle is on the left")
    forgotten = store.forget("s1#1")
    assert store.show("s1").text == "#1 user: [forgotten]\n\n#2 user: The kettle is on the left"
    assert (store.show("s1#1").text, store.show("s1#1").title) == ("[forgotten]", "[forgotten]")
    assert {turn.title for turn in store.list(kind=Kind.TURN)} == {"[forgotten]", "The kettle is on the left"}
    store.undo(forgotten.run_id)
    assert "4711" in store.show("s1").text


def test_restore_of_what_was_forgotten_names_the_undo(store: MemoryStore) -> None:
    node_id = store.remember("Lunch is at noon", channel="shop").result()
    run_id = store.forget(node_id).run_id
    with pytest.raises(InvalidInput) as caught:
        store.restore(node_id)
    assert (str(caught.value), run_id in caught.value.hint) == (f"{node_id} was forgotten", True)


def test_what_was_forgotten_can_be_remembered_again(store: MemoryStore) -> None:
    node_id = store.remember("Lunch is at noon", channel="shop").result()
    store.forget(node_id)
    assert store.remember("Lunch is at noon", channel="shop").result() == node_id
    assert node_id in found(store, "lunch noon")


def test_a_session_is_not_forgotten_whole(store: MemoryStore) -> None:
    talk(store, "s1", "shop", "hello there friend")
    with pytest.raises(InvalidInput, match="whole session"):
        store.forget("s1")


def changeset(run_id: str, *texts: str) -> Changeset:
    actions = tuple(
        Action(
            kind=ActionKind.CREATE,
            path=f"facts/{run_id}-{n}.md",
            node_id=f"{run_id}-{n}",
            stage="consolidate",
            reason="said so",
            content=(
                f"---\ntype: Fact\ntitle: {text}\nnode_id: {run_id}-{n}\nlevel: L1\nkind: fact\nchannel: shop\n"
                f'sources:\n  - {{ id: t1, resource: /sessions/x.md, title: "s1#1" }}\n---\n\n{text}\n'
            ).encode(),
            fingerprint=f"L1:{text}",
        )
        for n, text in enumerate(texts)
    )
    return Changeset(run_id=run_id, actions=actions, cursors={("consolidate", "s1"): 1})


def test_a_dream_is_applied_undone_and_not_dreamt_again(store: MemoryStore, paths: StorePaths) -> None:
    talk(store, "s1", "shop", "I moved the bookings to Postgres last week")
    before = files(store)
    applied = store.apply(changeset("run-1", "The bookings are in Postgres"))
    assert applied.applied == 1
    hit = store.recall("Where are the bookings?", channel="shop").hits[0]
    assert (hit.node_id, [e.external_id for e in hit.evidence]) == ("run-1-0", ["s1-0"])
    assert store.undo("run-1").restored == 1
    assert files(store) == before
    assert store.apply(changeset("run-2", "The bookings are in Postgres")).applied == 0
    with pytest.raises(NotFound):
        store.undo("no-such-run")


def test_an_edit_by_hand_is_found(store: MemoryStore, paths: StorePaths) -> None:
    node_id = store.remember("The boat is green", channel="shop").result()
    path = paths.vault / store.show(node_id).path
    path.write_text(path.read_text().replace("green", "turquoise"))
    store.file_changed([str(path.relative_to(paths.vault))])
    assert found(store, "turquoise") == [node_id]


def test_a_file_of_somebody_else_is_found_and_not_rewritten(store: MemoryStore, paths: StorePaths) -> None:
    note = paths.vault / "notes" / "kettle.md"
    note.parent.mkdir()
    note.write_text("Descale the kettle in March.\n")
    store.reconcile()
    assert [hit.text for hit in store.recall("kettle").hits] == ["Descale the kettle in March."]
    assert note.read_text() == "Descale the kettle in March.\n"


def test_broken_frontmatter_is_reported_kept_and_searchable(store: MemoryStore, paths: StorePaths) -> None:
    broken = paths.vault / "facts" / "broken.md"
    broken.parent.mkdir()
    broken.write_text("---\ntype: [unclosed\n---\nThe heron nests in April.\n")
    store.reconcile()
    assert [problem.path for problem in store.check()] == ["facts/broken.md"]
    assert store.status().broken_files == 1
    assert len(store.recall("heron nests").hits) == 1


def test_two_files_with_one_id_the_first_keeps_it(store: MemoryStore, paths: StorePaths) -> None:
    node_id = store.remember("The lift is broken", channel="shop").result()
    original = paths.vault / store.show(node_id).path
    (original.parent / "zz-copy.md").write_bytes(original.read_bytes())
    store.reconcile()
    assert store.show(node_id).path == str(original.relative_to(paths.vault))
    assert [problem.path for problem in store.check()] == ["projects/shop/notes/zz-copy.md"]
    original.unlink()
    store.reconcile()
    assert store.show(node_id).path == "projects/shop/notes/zz-copy.md"
    assert store.check() == []


@pytest.mark.parametrize("damage", ["missing", "garbage", "newer"])
def test_an_unusable_index_is_made_anew_and_the_vault_stays(
    store: MemoryStore, open_store: OpenStore, paths: StorePaths, damage: str
) -> None:
    talk(store, "s1", "shop", "The alarm tune is taped under the desk")
    node_id = store.remember("The alarm rings at six", channel="shop").result()
    answers = found(store, "alarm")
    before = files(store)
    store.close()
    if damage == "missing":
        for path in paths.index.parent.glob("index.db*"):
            path.unlink()
    elif damage == "garbage":
        paths.index.write_bytes(os.urandom(8192))
    else:
        import apsw

        connection = apsw.Connection(str(paths.index))
        connection.execute("PRAGMA user_version = 999")
        connection.close()
    again = open_store()
    assert found(again, "alarm") == answers
    assert again.show(node_id).text == "The alarm rings at six"
    assert files(again) == before


def test_a_rebuild_answers_as_before_and_embeds_nothing_again(store: MemoryStore) -> None:
    talk(store, "s1", "shop", *(f"Order {n} was delivered by courier {n % 3}" for n in range(30)))
    store.rebuild()
    before = [(hit.node_id, hit.score) for hit in store.recall("courier delivered order 7", channel="shop").hits]
    rebuilt = store.rebuild()
    after = [(hit.node_id, hit.score) for hit in store.recall("courier delivered order 7", channel="shop").hits]
    assert after == before
    assert (rebuilt.embedded, rebuilt.chunks) == (0, 30)


def test_appending_gives_the_index_that_a_rebuild_gives(store: MemoryStore) -> None:
    for n in range(7):
        talk(store, "s1", "shop", *(f"Step {m} of the bicycle repair" for m in range(n + 1)))
        store.recall("bicycle", channel="shop")
    appended = {turn.node_id: turn.digest() for turn in store.catalog.turns("s1")}
    store.rebuild()
    assert {turn.node_id: turn.digest() for turn in store.catalog.turns("s1")} == appended


def test_paused_learns_nothing(store: MemoryStore) -> None:
    store.pause()
    with pytest.raises(StoreReadOnly, match="paused"):
        store.remember("Nothing of this")
    talk(store, "s1", "shop", "nor of this")
    store.resume()
    store.set_channel("shop", learning=False)
    with pytest.raises(StoreReadOnly, match="off in shop"):
        store.remember("Nor this", channel="shop")
    store.set_channel("shop", learning=True)
    kept = store.remember("But this", channel="shop").result()
    assert found(store, "this") == [kept]


def test_what_was_true_then(store: MemoryStore, paths: StorePaths) -> None:
    folder = paths.vault / "facts"
    folder.mkdir()
    old, new = "valid_from: 2024-01-01\nvalid_to: 2025-06-01\nsuperseded_by: new", "valid_from: 2025-06-01"
    for name, validity, host in (("old", old, "Heroku"), ("new", new, "Fly")):
        (folder / f"{name}.md").write_text(
            f"---\ntype: Fact\ntitle: {host}\nnode_id: {name}\nlevel: L1\nchannel: shop\n{validity}\n---\n\n"
            f"The site is hosted on {host}.\n"
        )
    store.reconcile()
    assert found(store, "where is the site hosted") == ["new"]
    then = store.recall("where is the site hosted", channel="shop", as_of=datetime(2024, 8, 1, tzinfo=UTC))
    assert [hit.node_id for hit in then.hits] == ["old"]


def test_nothing_near_is_said_and_not_made_up(store: MemoryStore) -> None:
    store.remember("The kettle is on the left", channel="shop").result()
    recalled = store.recall("zzyzx quux", channel="shop")
    assert (recalled.hits, recalled.abstained) == ([], True)


def test_an_index_made_by_older_rules_is_made_anew(
    store: MemoryStore, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    node_id = store.remember("The ferry leaves at nine", channel="shop").result()
    store.close()
    monkeypatch.setattr("dreamd.store.index.open_index.PROJECTION_VERSION", 99)
    again = open_store()
    assert found(again, "ferry") == [node_id]
    assert again.status().problems == []  # it is whole again


def test_vectors_of_another_model_are_made_again_behind_everybodys_back(
    store: MemoryStore, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    node_id = store.remember("The ferry leaves at nine", channel="shop").result()
    store.rebuild()
    store.close()
    may_embed = Event()

    def embed_passages(embedder: StubEmbedder, texts: Sequence[str]) -> list[Vector]:
        assert may_embed.wait(30)
        return [embedder.embed_query(text) for text in texts]

    monkeypatch.setattr(StubEmbedder, "model_id", "another-model")
    monkeypatch.setattr(StubEmbedder, "embed_passages", embed_passages)
    again = open_store()
    try:
        assert found(again, "ferry") == [node_id]
        assert again.status().pending_embeddings == 1
    finally:
        may_embed.set()
    again.rebuild()
    assert again.status().pending_embeddings == 0
    assert found(again, "ferry") == [node_id]


def test_an_edited_memory_is_not_found_by_what_it_no_longer_says(
    store: MemoryStore, paths: StorePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    node_id = store.remember("The ferry leaves at nine from the old pier", channel="shop").result()
    store.rebuild()
    monkeypatch.setattr(StubEmbedder, "embed_passages", refuse_to_embed)  # the queue is long
    file = facts_in(paths.vault)[0]
    file.write_bytes(file.read_bytes().replace(b"The ferry leaves at nine from the old pier", b"Zephyrine sings"))
    store.file_changed([file.relative_to(paths.vault).as_posix()])
    assert store.status().pending_embeddings == 1
    assert found(store, "ferry nine pier") == []
    assert found(store, "Zephyrine") == [node_id]


def refuse_to_embed(embedder: StubEmbedder, texts: Sequence[str]) -> list[Vector]:
    raise ModelUnavailable("not now")


def test_a_check_after_writes_finds_a_healthy_index_healthy(store: MemoryStore) -> None:
    for n in range(4):
        talk(store, f"s{n}", "shop", *(f"Order {n}-{m} was delivered by courier {m % 7}" for m in range(600)))
        assert list(store.check()) == []  # each time, FTS5 has merged its segments since
        store.recall("courier", channel="shop")
    store.rebuild()
    assert list(store.check()) == []


def test_tidying_keeps_what_can_be_asked_for(store: MemoryStore) -> None:
    node_id = store.remember("The gate code is on the calendar", channel="shop").result()
    gone = store.remember("The gate squeaks", channel="shop").result()
    store.rebuild()
    forgotten = store.forget(gone)
    store.tidy()
    assert store.rebuild().embedded == 0
    assert store.undo(forgotten.run_id).restored == 1
    assert set(found(store, "gate")) == {node_id, gone}


def test_what_is_remembered_again_in_other_words_steps_back_and_reinforces(store: MemoryStore) -> None:
    first = store.remember("Ann's bicycle is really red.", channel="shop").result()
    again = store.remember("Ann's bicycle is red", channel="shop").result()
    assert store.settle_links()
    assert store.show(again).live is False
    assert store.show(first).live
    assert store.ledger.reinforced()[first].times == 1
    assert b"reinforced" not in store.vault.read(store.show(first).path)


def test_what_changes_an_older_memory_takes_its_place_at_once_and_can_be_undone(store: MemoryStore) -> None:
    older = store.remember("The deadline of the peer review draft is April 20.", channel="shop").result()
    newer = store.remember("The deadline of the peer review draft was extended to April 25.", channel="shop").result()
    assert store.settle_links()
    assert [hit.node_id for hit in store.recall("peer review draft deadline", channel="shop").hits] == [newer]
    (run,) = [run for run in store.runs() if run.kind == "link"]
    store.undo(run.run_id)
    assert {hit.node_id for hit in store.recall("peer review draft deadline", channel="shop").hits} == {older, newer}


@pytest.mark.parametrize("levels", [(), (Level.FACT,)])
def test_what_was_replaced_is_marked_where_the_archive_is_searched(
    store: MemoryStore, levels: tuple[Level, ...]
) -> None:
    said: list[str] = []
    for seconds in (30, 60, 90):
        text = f"The API timeout is {seconds} seconds{' now' if said else ''}."
        said.append(store.remember(text, channel="shop").result())
        assert store.settle_links()
    hits = store.recall("API timeout of 30 seconds", channel="shop", levels=levels, include_archived=True).hits
    marks = {hit.node_id: list(hit.superseded_by) for hit in hits}
    assert marks == {said[0]: said[2:], said[1]: said[2:], said[2]: []}


def test_what_contradicts_an_older_memory_is_told_beside_it_the_newest_first(store: MemoryStore) -> None:
    older = store.remember("I submitted my cover letter to Greg for a review.", channel="shop").result()
    newer = store.remember("I have never submitted my cover letter to Greg.", channel="shop").result()
    assert store.settle_links()
    envelope = store.context("Was the cover letter submitted to Greg for review?", channel="shop")
    assert [slot.node_id for slot in envelope.slots] == [newer, older]
    assert [slot.contradicts for slot in envelope.slots] == [(older,), (newer,)]
    hits = store.recall("cover letter submitted to Greg", channel="shop").hits
    assert {hit.node_id: hit.contradicts for hit in hits} == {older: (newer,), newer: (older,)}
    assert "disputed" in envelope.text


def test_a_start_and_tidying_sweep_what_killed_writes_left_and_check_names_what_may_be_a_persons(
    store: MemoryStore, paths: StorePaths
) -> None:
    store.close()
    plain, saved = paths.vault / ".dreamd-1-1.tmp", paths.vault / ".dreamd-1-2.aside.tmp"
    for path in (plain, saved):
        path.write_text("Somebody saved this")
    now = [datetime.fromtimestamp(saved.stat().st_ctime + 3600, UTC)]
    again = MemoryStore.open(paths, StoreSettings(), StubEmbedder(), lambda: now[0])
    again.operations.cleanup._thread.join()
    assert (plain.exists(), saved.exists()) == (False, True)
    assert [problem.path for problem in again.check()] == [saved.name]
    plain.write_text("left by another kill")
    now[0] += timedelta(hours=1)
    again.tidy()
    assert not plain.exists()
    again.close()


def test_a_session_that_was_moved_out_of_its_folder_is_named(store: MemoryStore) -> None:
    talk(store, "s1", "shop", "The zebra sleeps")
    assert found(store, "zebra") == ["s1#1"]
    (session,) = (store.paths.vault / "sessions").rglob("s1.md")
    (store.paths.vault / "old").mkdir()
    session.rename(store.paths.vault / "old" / "s1.md")
    (problem,) = [problem for problem in store.check() if problem.path == "old/s1.md"]
    assert "its turns are not found" in problem.problem
    (store.paths.vault / "sessions" / "old").mkdir()
    (store.paths.vault / "old" / "s1.md").rename(store.paths.vault / "sessions" / "old" / "s1.md")
    assert not [problem for problem in store.check() if "turns are not found" in problem.problem]
    assert found(store, "zebra") == ["s1#1"]


def test_a_folder_that_others_may_change_is_named(store: MemoryStore, paths: StorePaths) -> None:
    paths.vault.chmod(0o777)
    paths.ledger.parent.chmod(0o700)
    named = [problem.path for problem in store.check() if "chmod 700" in problem.problem]
    assert named == [str(paths.vault)]


def test_a_note_names_no_secret_of_the_question(store: MemoryStore) -> None:
    store.remember("The boat is green and lies in the harbour of Brighton", channel="shop").result()
    assert store.recall("is the boat in Zanzibar", channel="shop").notes == ["nothing that was found names Zanzibar"]
    secret = "ghp_" + "R8sKq2mZt7Vb4Xc9Lw1Yp6Nd3Gh5Jf0QaEuT"
    assert "R8sKq2" not in str(store.recall(f"is the boat {secret}", channel="shop").notes)
    assert "Kx93" not in str(store.recall("is the boat's password: Kx93harbourQz17", channel="shop").notes)


def test_of_a_large_file_the_beginning_is_read_and_it_is_never_rewritten(store: MemoryStore, paths: StorePaths) -> None:
    large = paths.vault / "notes" / "large.md"
    large.parent.mkdir()
    large.write_text("The harbour opens at nine.\n")
    with large.open("r+b") as file:
        file.truncate(2**40)
    assert store.reconcile().applied == 1
    (node,) = store.catalog.nodes_of_file("notes/large.md")
    assert store.show(node.node_id).text.startswith("The harbour opens at nine.")
    with pytest.raises(InvalidInput, match="larger than 4 MiB"):
        store.forget(node.node_id)
    assert large.stat().st_size == 2**40
