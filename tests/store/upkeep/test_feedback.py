"""What was asked is kept, redacted, with what was of use; whoever does not want that has nothing of it on the disk."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.ledger.questions import MOST_QUESTIONS, PastQuestion, prune_questions, record_question
from dreamd.store.ledger.records import clear_flag
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.model import NewTurn, NotFound, SessionHead
from dreamd.store.settings import StoreSettings

OpenStore = Callable[[], MemoryStore]
AT = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)  # the store's own clock, which stands still
QUESTION = "Which database did we choose for the bookings?"


def talk(store: MemoryStore, *texts: str, role: str = "user", session: str = "s1", at: datetime = AT) -> None:
    store.observe(SessionHead(session, "shop", started_at=at), [NewTurn(role, text, at) for text in texts]).result()


def asked(store: MemoryStore) -> list[PastQuestion]:
    assert store.operations.feedback.settle(10)
    store.core.writer.write(clear_flag("none")).result()  # what may be written later is written with this
    return store.ledger.asked()


@pytest.fixture
def filled(store: MemoryStore) -> MemoryStore:
    talk(store, "We chose Postgres with logical replication for the bookings, hosted in Frankfurt", "The sky is blue")
    return store


def test_a_question_is_kept_once_and_counted(filled: MemoryStore) -> None:
    for _ in range(3):
        filled.recall(QUESTION, channel="shop")
    (row,) = asked(filled)
    assert (row.text, row.channel, row.times, row.last_at, row.gold) == (QUESTION, "shop", 3, AT, ())
    assert "s1#1" in row.shown


def test_a_lookup_after_an_answer_counts_as_use(filled: MemoryStore) -> None:
    filled.recall(QUESTION, channel="shop")
    filled.show("s1#1")
    assert asked(filled)[0].gold == ("s1#1",)
    (probe,) = filled.ledger.probes()
    assert (probe.text, probe.channel, probe.gold) == (QUESTION, "shop", ("s1#1",))
    assert filled.ledger.feedback() == {"s1#1": {"used": 1}}


def test_words_repeated_by_the_assistant_count_as_use(filled: MemoryStore) -> None:
    filled.context(QUESTION, channel="shop")
    talk(filled, "You chose Postgres, with logical replication, and it is hosted in Frankfurt.", role="assistant")
    assert asked(filled)[0].gold == ("s1#1",)


@pytest.mark.parametrize(
    ("role", "text", "channel", "at"),
    [
        ("user", "Postgres with logical replication, hosted in Frankfurt", "shop", AT),
        ("assistant", "I do not know which database was chosen for the bookings.", "shop", AT),
        ("assistant", "Postgres with logical replication, hosted in Frankfurt", "elsewhere", AT),
        ("assistant", "Postgres with logical replication, hosted in Frankfurt", "shop", AT - timedelta(days=90)),
    ],
    ids=["not an assistant", "the question's own words", "another project", "an old transcript"],
)
def test_other_words_do_not_count_as_use(filled: MemoryStore, role: str, text: str, channel: str, at: datetime) -> None:
    filled.recall(QUESTION, channel="shop")
    filled.observe(SessionHead("s2", channel, started_at=at), [NewTurn(role, text, at)]).result()
    assert asked(filled)[0].gold == ()


def test_a_question_of_one_session_is_not_answered_in_another(filled: MemoryStore) -> None:
    filled.context(QUESTION, channel="shop", session="s7")
    talk(filled, "Postgres with logical replication, hosted in Frankfurt", role="assistant", session="s8")
    assert asked(filled)[0].gold == ()
    talk(filled, "Postgres with logical replication, hosted in Frankfurt", role="assistant", session="s7")
    assert asked(filled)[0].gold == ("s1#1",)


def test_feedback_decides_also_after_a_restart(filled: MemoryStore, open_store: OpenStore) -> None:
    filled.recall(QUESTION, channel="shop")
    filled.feedback("s1#1", "useful")
    assert asked(filled)[0].gold == ("s1#1",)
    filled.close()
    again = open_store()
    again.feedback("s1#1", "not-useful")
    assert asked(again)[0].gold == ()
    assert [gap.text for gap in again.ledger.gaps()] == [QUESTION]
    assert again.ledger.feedback() == {"s1#1": {"useful": 1, "not_useful": 1}}
    with pytest.raises(NotFound):
        again.feedback("nobody", "useful")


def test_a_memory_without_evidence_is_its_own_gold(store: MemoryStore) -> None:
    node_id = store.remember("The staging server restarts every Sunday at four", channel="shop").result()
    store.recall("When does the staging server restart?", channel="shop")
    store.show(node_id)
    assert asked(store)[0].gold == (node_id,)


def test_a_question_that_found_nothing_is_a_gap_until_a_memory_is_useful(store: MemoryStore) -> None:
    question = "Where do we keep the kubernetes manifests?"
    for _ in range(2):
        assert store.recall(question, channel="shop").abstained
    asked(store)
    (gap,) = store.ledger.gaps()
    assert (gap.text, gap.channel, gap.times, gap.last_at) == (question, "shop", 2, AT)
    talk(store, "The kubernetes manifests are in the ops repository, folder deploy")
    store.recall(question, channel="shop")
    store.show("s1#1")
    asked(store)
    assert store.ledger.gaps() == []


def test_a_question_that_was_answered_in_another_channel_is_no_gap(filled: MemoryStore) -> None:
    assert filled.recall(QUESTION, channel="bakery").abstained
    assert filled.recall("Where do we keep the kubernetes manifests?", channel="bakery").abstained
    assert filled.recall(QUESTION.upper(), channel="shop").hits
    asked(filled)
    assert [gap.text for gap in filled.ledger.gaps()] == ["Where do we keep the kubernetes manifests?"]


def test_secrets_and_pasted_documents_are_not_kept(filled: MemoryStore) -> None:
    secret = "AKIA" + "IOSFODNN7QRSTUVW"
    filled.recall(f"why does the key {secret} fail for the bookings", channel="shop")
    filled.recall("bookings replication " * 500, channel="shop")
    filled.recall("ok", channel="shop")
    (row,) = asked(filled)
    assert secret not in row.text


def test_what_a_person_tries_out_is_no_probe(filled: MemoryStore) -> None:
    filled.recall(QUESTION, channel="shop", explain=True)
    filled.recall(QUESTION, channel="shop", include_archived=True)
    filled.pause()
    filled.recall(QUESTION, channel="shop")
    assert asked(filled) == []


def test_what_a_person_tries_out_is_no_use_of_it(filled: MemoryStore) -> None:
    hits = filled.recall(QUESTION, channel="shop", explain=True).hits
    assert asked(filled) == []
    assert filled.ledger.usage() == {}
    filled.recall(QUESTION, channel="shop")
    assert asked(filled)
    assert filled.ledger.usage().keys() == {hit.node_id for hit in hits}


def test_the_oldest_questions_are_pruned(store: MemoryStore) -> None:
    old = record_question("an old question", None, [], True, AT - timedelta(days=31))
    many = [record_question(f"question {n}", None, [], True, AT + timedelta(seconds=n)) for n in range(2010)]
    store.core.writer.write(old, *many, *prune_questions(AT + timedelta(hours=1))).result()
    kept = [row.text for row in store.ledger.asked()]
    assert len(kept) == MOST_QUESTIONS
    assert "an old question" not in kept
    assert kept[0] == "question 2009"


def test_purged_questions_leave_no_trace(filled: MemoryStore, paths: StorePaths) -> None:
    filled.recall(QUESTION, channel="shop")
    filled.recall("Whose umbrella stands in the corridor today?", channel="shop")
    assert len(asked(filled)) == 2
    assert filled.purge_questions() == 2
    assert filled.ledger.asked() == []
    on_disk = b"".join(path.read_bytes() for path in paths.ledger.parent.glob("ledger.db*"))
    assert b"umbrella" not in on_disk
    filled.recall(QUESTION, channel="shop")
    assert len(asked(filled)) == 1


def test_switched_off_nothing_is_kept_and_what_was_is_gone(filled: MemoryStore, paths: StorePaths) -> None:
    filled.recall("Whose umbrella stands in the corridor today?", channel="shop")
    assert asked(filled)
    filled.close()
    off = MemoryStore.open(paths, StoreSettings(probes=False), StubEmbedder(), lambda: AT)
    off.recall(QUESTION, channel="shop")
    assert asked(off) == []
    off.close()
    assert b"umbrella" not in b"".join(path.read_bytes() for path in paths.ledger.parent.glob("ledger.db*"))
