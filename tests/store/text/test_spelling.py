"""The names in a question, and the words that it may have meant."""

from __future__ import annotations

import pytest
from dreamd.store.memory import MemoryStore
from dreamd.store.model import NewTurn, SessionHead
from dreamd.store.text.spelling import is_slip, meant, names_asked, unnamed
from dreamd.store.text.words import query_terms, stems_of
from hypothesis import given
from hypothesis import strategies as st

TEXTS = ("The coffee at the corner costs 9.90.", "More coffee, and deploy to Frankfurt by Argo.", "A toffee for Ute.")


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        (["cofee"], ["coffee"]),
        (["depoly", "frankfrt"], ["deploy", "frankfurt"]),
        (["coffees", "deploys"], []),  # of the same stem
        (["coffee", "toffee"], []),  # held
        (["koffee"], ["coffee"]),  # the commoner of two
        (["arg", "utes", "9.91"], []),
        (["penguin"], []),
        (["sand"], []),  # "and" names nothing
    ],
)
def test_one_slip_is_seen_through(terms: list[str], words: list[str]) -> None:
    assert meant(terms, TEXTS) == words


@pytest.mark.parametrize(
    ("name", "is_named"),
    [
        ("Torbjorn", True),
        ("Jose", True),
        ("Ana", True),
        ("Schriber", True),
        ("Anton", False),
        ("Bert", False),  # "best" is no name
        ("4712", False),
    ],
)
def test_a_name_is_named_by_its_plain_letters_or_one_slip_away(name: str, is_named: bool) -> None:
    texts = ["torbjørn asked José", "That is best, said Anna Schreiber's friend.", "Room 4711"]
    assert unnamed([name], texts) == ([] if is_named else [name])


@given(st.text("abc", min_size=1, max_size=6), st.data())
def test_every_slip_is_one_both_ways(word: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(word) - 1))
    slips = [
        word[:place] + word[place + 1 :],
        word[:place] + "x" + word[place:],
        word[:place] + "x" + word[place + 1 :],
        word[:place] + word[place : place + 2][::-1] + word[place + 2 :],
    ]
    for slip in slips:
        assert is_slip(word, slip) == is_slip(slip, word) == (slip != word)
    assert not is_slip(word, word + "xy")


def test_the_newest_memories_of_the_channel_are_read(store: MemoryStore) -> None:
    store.remember("The coffee at the corner costs 9.90.", channel="shop").result()
    turn = NewTurn("user", "We deploy to Frankfurt.", None, "1")
    store.observe(SessionHead("s1", "shop"), [turn]).result()
    secret = store.remember("The launch is called heron.", channel="shop").result()
    store.remember("Tulips grow in the garden.", channel="garden").result()
    store.forget(secret)
    store.settle()
    assert store.meant("cofee in frankfrt, tulps and herno", "shop") == ["coffee", "frankfurt"]
    assert store.meant("tulps", "*") == ["tulips"]


def test_a_secret_is_not_suggested(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.remember("The launch is called heron, and coffee is free.", channel="shop").result()
    store.settle()
    monkeypatch.setattr("dreamd.store.recall.outgoing", lambda text: text.replace("heron", "[REDACTED]"))
    assert store.meant("herno", "shop") == []
    assert store.meant("cofee", "shop") == ["coffee"]


@pytest.mark.parametrize(
    ("question", "named"),
    [
        ("What does Anna's dog eat?", ["Anna's"]),
        ("Tell me: did we take NATS, or Kafka v2.3 with CX22 machines?", ["Kafka", "v2.3", "CX22"]),
        ("¿Dónde vive Lucía?", ["Lucía"]),
        ("Which order is 4711, and where are the 3 others?", ["4711"]),
        ("what does anna's dog eat", []),
        ("What did we choose on 12 May 2023, on Monday or last week?", []),
        ("Was frisst der Hund auf der Reise?", []),
        ("WHAT DOES ANNA EAT", []),
        ("What Did Anna Choose", []),
        ("Who asked for Kafka? " + "It was a long day. " * 20, []),
    ],
)
def test_names_are_told_from_other_words(question: str, named: list[str]) -> None:
    assert names_asked(question, stems_of(query_terms(question))) == named


def test_only_words_with_a_wanted_stem_are_names() -> None:
    assert names_asked("Does Anna know Berta?", stems_of(["berta"])) == ["Berta"]
