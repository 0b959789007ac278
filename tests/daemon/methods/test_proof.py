"""The proof: past questions put again, counted for whom they were answered, and nothing of it kept."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest
from dreamd.daemon.clock import utc_now
from dreamd.daemon.methods.proof import BUDGET_TOKENS, DREAMD, FILES, NOTHING, SEARCH, ProofAnswer, ProofMethods
from dreamd.daemon.methods.proof import ProofParams as Params
from dreamd.ipc.call import Call
from dreamd.ipc.protocol import Refused
from dreamd.store.memory import MemoryStore
from dreamd.store.model import NewTurn, SessionHead
from dreamd.store.results import ProgramFile

from tests.daemon.methods.conftest import Opened

ASKED = "On which disk in the house do we keep the backups of the orders?"
SAID = "The backups are on the blue disk in the cellar since March."


@pytest.fixture
def store(opened: Opened) -> MemoryStore:
    """Give a store in which one question found what was of use, and one found nothing."""
    store = opened(utc_now)
    at = utc_now() - timedelta(days=2)
    said = [SAID, *(f"Line {number} of the weather report." for number in range(40))]
    turns = [NewTurn("user", text, at, f"t{number}") for number, text in enumerate(said)]
    store.observe(SessionHead("talk", "orders-1"), turns).result()
    store.settle()
    for query in (ASKED, "Where was the zxqv of the kwyj painted green last summer?"):
        store.recall(query, channel="orders-1")
    store.operations.feedback.settle(10)
    store.feedback("talk#1", "useful")
    store.operations.feedback.settle(10)
    store.remember("A commit, which takes questions along.").result()
    assert store.settle()
    return store


def prove(store: MemoryStore, page: Path, **params: int) -> ProofAnswer:
    return ProofMethods(store).prove(Params(path=str(page), **params), Call(1, "prove"))


def kept(store: MemoryStore) -> tuple[object, ...]:
    return store.exports.asked(), store.ledger.usage(), store.ledger.feedback()


def test_an_answer_is_carried_by_whom_it_is_carried(store: MemoryStore, tmp_path: Path) -> None:
    before = kept(store)
    answer = prove(store, tmp_path / "p.html")
    assert (answer.questions, answer.judged) == (2, 1)
    assert {one.name: one.hits for one in answer.contestants} == {NOTHING: 0, SEARCH: 1, FILES: 0, DREAMD: 1}
    assert all(one.tokens <= BUDGET_TOKENS for one in answer.contestants)
    assert answer.contestants[0].tokens == answer.contestants[0].lines == 0
    store.operations.feedback.settle(10)
    assert kept(store) == before


def test_a_program_s_own_file_counts_where_it_says_so(store: MemoryStore, tmp_path: Path) -> None:
    file = tmp_path / "AGENTS.md"
    file.write_text(f"# Notes\n\n- {SAID}\n")
    assert prove(store, tmp_path / "a.html").contestants[2].hits == 0
    store.keep_files("orders-1", [ProgramFile("AGENTS.md", str(file), str(tmp_path), frozenset({"codex"}), "user")])
    store.settle()
    assert prove(store, tmp_path / "b.html").contestants[2].hits == 1


def test_the_page_needs_no_network_and_says_how_little_it_knows(store: MemoryStore, tmp_path: Path) -> None:
    prove(store, tmp_path / "p.html")
    page, card = (tmp_path / "p.html").read_text(), (tmp_path / "p.svg").read_text()
    assert "fewer than 30: it says little" in page
    assert "favours it" in page
    assert ASKED in page
    assert ASKED not in card
    for text in (page, card):
        assert not re.search(r"(src|href)=|url\(|@import", text)
        assert "1 of 1" in text
    with pytest.raises(Refused, match=r"p\.html exists"):
        prove(store, tmp_path / "p.html")


def test_without_questions_nothing_is_claimed(store: MemoryStore, tmp_path: Path) -> None:
    store.purge_questions()
    answer = prove(store, tmp_path / "p.html")
    assert (answer.questions, answer.judged) == (0, 0)
    assert "nothing can be said yet" in (tmp_path / "p.html").read_text()
