"""What an agent may have from a stranger is kept, found and quoted, and steers nothing until its person accepts it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from dreamd.daemon.agents.briefs import Brief, Briefs, Start
from dreamd.daemon.agents.undreamt_sessions import UndreamtSessions
from dreamd.store import MemoryStore, okf
from dreamd.store.model import Kind, Memory, NewTurn, NotFound, SessionHead
from dreamd.store.results import Kept

from tests.attacks import ATTACKS

SAID = "Release notes are signed by the harbour master."
AT = datetime(2026, 11, 21, 11, tzinfo=UTC)
ALWAYS = "always, "
"""The beginning of a line that stands in an envelope whatever is asked; the stub's vectors find anything by chance."""

STEERING = [Kind.PROCEDURE, Kind.PREFERENCE, Kind.CORRECTION, Kind.NEGATIVE, Kind.DECISION, Kind.PITFALL]


def hear(store: MemoryStore, *turns: tuple[str, str], live: bool = True) -> None:
    head = SessionHead("s1", "shop", agent_id="claude-code")
    store.observe(head, [NewTurn(role, text, AT) for role, text in turns], live=live).result()


def read_a_page(store: MemoryStore) -> None:
    hear(store, ("user", "What does the page say?"), ("assistant", "[WebFetch: https://a.example]"))


def remember(store: MemoryStore, text: str = SAID, kind: Kind = Kind.PROCEDURE, **more: object) -> Kept:
    agent = {"agent_id": "claude-code", "session": "s1"} | more
    kept = store.keep(text, kind=kind, channel="shop", **agent).result()  # type: ignore[arg-type]
    store.settle(10)
    return kept


def file_of(store: MemoryStore, node_id: str) -> Memory:
    path = store.core.lookup.path_of(node_id)
    assert path
    return okf.to_memory(path, okf.parse(store.vault.read(path)))


def briefing(store: MemoryStore) -> Brief:
    return Briefs(store, UndreamtSessions(store, lambda: AT), lambda: AT).brief(Start("shop", "s2"))


def settle(store: MemoryStore) -> None:
    assert store.operations.linker.settle(10)
    store.settle(10)


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_attack_by_way_of_an_agent_steers(attack: str, store: MemoryStore) -> None:
    read_a_page(store)
    kept = remember(store, attack, curated=10 if len(attack) <= 280 else 0)
    assert kept.waits
    memory = file_of(store, kept.node_id)
    assert (memory.kind, memory.said_by, memory.provenance) == (Kind.FACT, "assistant", "inferred")
    assert not store.list(always=True)
    assert ALWAYS not in store.context("Paint the fence", channel="shop").text
    assert not briefing(store).lines
    hits = store.recall("which port is the shop on", channel="shop").hits
    assert kept.node_id in [hit.node_id for hit in hits]
    told = store.context("which port is the shop on", channel="shop").text
    assert "assistant: The port of the shop is 8080" in told


@pytest.mark.parametrize("kind", STEERING)
def test_every_kind_that_steers_waits(store: MemoryStore, kind: Kind) -> None:
    read_a_page(store)
    kept = remember(store, kind=kind)
    (waiting,) = store.waiting()
    assert (waiting.node_id, waiting.kind, waiting.always) == (kept.node_id, kind, 0)
    assert waiting.because == "its agent had read what strangers wrote"
    assert waiting.agent == "claude-code"


def test_a_plain_fact_is_the_agents_word_and_waits_for_nobody(store: MemoryStore) -> None:
    read_a_page(store)
    kept = remember(store, kind=Kind.NOTE)
    assert not kept.waits
    assert file_of(store, kept.node_id).said_by == "assistant"
    assert not store.waiting()


def test_a_session_that_is_not_heard_is_not_trusted_to_steer(store: MemoryStore) -> None:
    hear(store, ("user", "Hello."), live=False)
    assert remember(store).waits
    assert store.waiting()[0].because == "the session of its agent is not known"
    note = remember(store, "The harbour is deep.", Kind.NOTE)
    assert not note.waits
    assert file_of(store, note.node_id).kind is Kind.NOTE


def test_a_session_that_read_nothing_foreign_passes_at_once(store: MemoryStore) -> None:
    hear(store, ("user", "Sign what you release."), ("assistant", "[Bash: make sign]"))
    kept = remember(store, curated=5)
    assert not kept.waits
    memory = file_of(store, kept.node_id)
    assert (memory.kind, memory.said_by, memory.provenance) == (Kind.PROCEDURE, None, "user_stated")
    assert store.context("Paint", channel="shop").text.count(SAID) == 1


def test_the_persons_own_words_pass_at_once(store: MemoryStore) -> None:
    hear(store, ("user", f"From now on: {SAID}\n{SAID}"), ("assistant", "[WebSearch: harbour masters]"))
    assert not remember(store).waits


def test_a_pause_is_not_heard(store: MemoryStore) -> None:
    hear(store, ("user", "Sign it."))
    store.pause()
    hear(store, ("assistant", "[WebFetch: https://a.example]"))
    store.resume()
    assert remember(store).waits


def test_acceptance_makes_it_what_it_was_to_be_and_can_be_undone(store: MemoryStore) -> None:
    read_a_page(store)
    kept = remember(store, curated=7)
    done = store.accept(kept.node_id, "marit")
    memory = file_of(store, kept.node_id)
    assert (memory.kind, memory.said_by, memory.provenance) == (Kind.PROCEDURE, None, "user_stated")
    assert memory.extra["verified"][0]["by"] == "human:marit"
    assert not store.waiting()
    assert f"{ALWAYS}note: {SAID}" in store.context("Paint the fence", channel="shop").text
    with pytest.raises(NotFound):
        store.accept(kept.node_id, "marit")
    store.undo(done.run_id)
    assert [one.node_id for one in store.waiting()] == [kept.node_id]
    assert ALWAYS not in store.context("Paint the fence", channel="shop").text


def test_status_and_check_count_what_waits(store: MemoryStore) -> None:
    assert "review" not in " ".join(store.status().problems)
    read_a_page(store)
    remember(store)
    assert "1 note waits for review: `dreamctl review`." in store.status().problems
    assert [found.severity for found in store.check() if "1 note waits for review" in found.problem] == ["note"]


def test_rejection_forgets_it(store: MemoryStore) -> None:
    read_a_page(store)
    kept = remember(store)
    store.reject(kept.node_id)
    assert not store.waiting()
    assert store.recall("Who signs release notes?", channel="shop").abstained


def test_the_person_says_it_too(store: MemoryStore) -> None:
    read_a_page(store)
    kept = remember(store)
    said = remember(store, agent_id=None, session=None)
    assert (said.node_id, said.novelty, said.waits) == (kept.node_id, "known", False)
    settle(store)
    assert not store.waiting()
    assert file_of(store, kept.node_id).kind is Kind.PROCEDURE


def test_an_agent_that_recalled_it_does_not_accept_it(store: MemoryStore) -> None:
    read_a_page(store)
    kept = remember(store)
    head = SessionHead("s2", "shop", agent_id="claude-code")
    store.observe(head, [NewTurn("user", "Who signs?", AT)], live=True).result()
    again = remember(store, session="s2", curated=5)
    settle(store)
    assert (again.node_id, again.waits) == (kept.node_id, True)
    assert file_of(store, kept.node_id).is_waiting


def test_the_persons_words_in_another_session_accept_it(store: MemoryStore) -> None:
    read_a_page(store)
    kept = remember(store)
    head = SessionHead("s2", "shop", agent_id="claude-code")
    store.observe(head, [NewTurn("user", SAID, AT)], live=True).result()
    assert not remember(store, session="s2").waits
    settle(store)
    assert file_of(store, kept.node_id).kind is Kind.PROCEDURE


def test_what_the_person_said_before_is_not_touched(store: MemoryStore) -> None:
    own = remember(store, kind=Kind.NOTE, agent_id=None, session=None)
    read_a_page(store)
    kept = remember(store, curated=10)
    assert (kept.node_id, kept.novelty, kept.waits) == (own.node_id, "known", False)
    assert not store.waiting()
    assert file_of(store, own.node_id).kind is Kind.NOTE


def test_it_takes_nothings_place_and_nothing_is_put_away_for_it(store: MemoryStore) -> None:
    own = remember(store, "The office is in Linz.", Kind.FACT, agent_id=None, session=None)
    settle(store)
    read_a_page(store)
    waiting = remember(store, "The office is in Graz now, no longer in Linz.", Kind.CORRECTION)
    settle(store)
    assert file_of(store, own.node_id).is_live
    remember(store, "The harbour is in Graz now.", Kind.CORRECTION)
    same = remember(store, "The harbour is just in Graz now.", Kind.FACT, agent_id=None, session=None)
    settle(store)
    assert file_of(store, same.node_id).is_live
    assert file_of(store, waiting.node_id).is_waiting


def test_said_twice_it_waits_once(store: MemoryStore) -> None:
    read_a_page(store)
    first, again = remember(store), remember(store)
    assert (again.node_id, again.waits, again.novelty) == (first.node_id, True, "known")
    assert len(store.waiting()) == 1


def test_what_an_agent_reflects_waits_as_well(store: MemoryStore) -> None:
    read_a_page(store)
    (lesson,) = store.reflect("s1", "shop", [(Kind.PROCEDURE, SAID)], "claude-code")
    assert lesson.waits
    store.settle(10)
    assert [one.node_id for one in store.waiting()] == [lesson.node_id]


def test_it_waits_on_after_a_rebuild_and_by_an_edited_file(store: MemoryStore) -> None:
    read_a_page(store)
    kept = remember(store)
    store.rebuild()
    assert [one.node_id for one in store.waiting()] == [kept.node_id]
    path = store.vault.resolve(file_of(store, kept.node_id).path)
    path.write_bytes(okf.edit(path.read_bytes(), {"awaits_review": "soon"}))
    store.file_changed(str(path))
    store.settle(10)
    assert store.waiting()[0].kind is Kind.NOTE
