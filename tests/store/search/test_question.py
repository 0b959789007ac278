from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from dreamd.store.engine import bm25
from dreamd.store.model import InvalidInput
from dreamd.store.search.question import MEANT_TOKENS, READ_CHARS, asks_of_alone, read_query
from dreamd.store.search.relevance import Words, pieces_of
from dreamd.store.text.judging import EarlierStatement, judge
from dreamd.store.text.statements import read
from dreamd.store.text.token_count import beginning, estimate_tokens
from dreamd.store.text.words import normal_form, query_terms, stems_of, term_stems
from hypothesis import given
from hypothesis import strategies as st


def test_a_usual_question_is_read_as_it_is() -> None:
    question = "Which database did we choose, and why?!  (staging)"
    read_as = read_query(f"  {question}\n")
    assert (read_as.words, read_as.meant, read_as.note) == (question, question, "")


@pytest.mark.parametrize("blank", ["", " ", "\n\t \u3000"])
def test_a_question_that_says_nothing_is_refused(blank: str) -> None:
    with pytest.raises(InvalidInput, match="empty") as caught:
        read_query(blank)
    assert caught.value.hint


def test_of_a_long_question_the_beginning_is_read_and_a_note_says_so() -> None:
    read_as = read_query("How do we deploy? " + "log line 17 of the build; " * 4000)
    assert len(read_as.words) <= READ_CHARS
    assert read_as.words.startswith(read_as.meant)
    assert read_as.meant.startswith("How do we deploy?")
    assert f"{READ_CHARS:,} characters" in read_as.note
    middling = read_query("how do we deploy the billing service to staging " * 20)
    assert len(middling.words) > len(middling.meant)
    assert "by meaning" in middling.note


@pytest.mark.parametrize("mark", ['"', "(", "*", "=", "─", "🐘"])
def test_a_ruled_line_costs_no_more_than_three_marks(mark: str) -> None:
    assert read_query(f"what is {mark * 60_000}").words == f"what is {mark * 3}"


@pytest.mark.parametrize("marks", ["???", "─" * 65_536, "\"('*')\" " * 9_000, "🐘"])
def test_of_marks_alone_nothing_is_looked_for(marks: str) -> None:
    read_as = read_query(marks)
    assert (read_as.words, read_as.meant) == ("", "")
    assert "no words" in read_as.note


HOSTILE = {
    "quotes": '"', "brackets": "(", "stars": "*", "mixed marks": '"(*)[]{};:,.!?/\\|', "near": "NEAR(", "spaces": " ",
    "letters": "a", "words": "word ", "capitals": "aB", "numbers": "7 ", "times": "at 10:30 pm ", "dots": "a.",
    "dashes": " - ", "relative": "x that ", "denials": "I have never used it, which ", "newlines": "\n",
    "joined": "a_b-", "changes": "moved to ", "months": "May ", "stops": "!. ", "CJK": "語", "combining": "e\u0301",
}  # fmt: skip

READERS: dict[str, Callable[[str], object]] = {
    "read_query": read_query, "query_terms": query_terms, "term_stems": term_stems, "words": bm25.words,
    "spell_out": bm25.spell_out, "estimate_tokens": estimate_tokens, "statement": read.__wrapped__,
    "pieces_of": pieces_of.__wrapped__, "words of a question": Words(("word", "may")).found,
    "normal_form": normal_form, "stems_of": lambda text: stems_of([text]),
    "judge": lambda text: judge(text + " now", [EarlierStatement("earlier", text, 0.9)]),
}  # fmt: skip


@pytest.mark.parametrize("reader", READERS)
def test_what_a_question_meets_takes_time_in_proportion_to_the_text(reader: str) -> None:
    """Ten times the text may take ten times as long; what is quadratic takes a hundred times."""
    slow = {}
    for name, piece in HOSTILE.items():
        short, long = (f"so {piece * (size // len(piece))} end" for size in (10_000, 100_000))
        took = quickest(READERS[reader], long)
        if took > 0.05 and took > 30 * max(quickest(READERS[reader], short), 1e-4):
            slow[name] = took
    assert not slow


def quickest(reader: Callable[[str], object], text: str) -> float:
    """The least of what this thread worked, so that what else the machine does counts for nothing."""
    took = []
    for _ in range(5):
        began = time.thread_time()
        reader(text)
        took.append(time.thread_time() - began)
        if took[-1] < 0.05:
            break
    return min(took)


@pytest.mark.parametrize("piece", HOSTILE.values(), ids=HOSTILE)
def test_what_is_read_of_any_question_is_bounded(piece: str) -> None:
    try:
        read_as = read_query(piece * (2**16 // len(piece)))
    except InvalidInput:
        assert not piece.strip()
    else:
        assert len(read_as.words) <= READ_CHARS
        assert estimate_tokens(read_as.meant) <= MEANT_TOKENS or len(read_as.meant) <= MEANT_TOKENS


@given(st.text(max_size=300) | st.text(alphabet="ab \n.", max_size=300), st.integers(3, 40))
def test_a_beginning_takes_no_more_tokens_than_there_are(text: str, limit: int) -> None:
    text = text.strip()
    begun = beginning(text, limit)
    assert text.startswith(begun)
    if len(begun.split()) > 1:
        assert estimate_tokens(begun) <= limit
    if estimate_tokens(text) <= limit:
        assert begun == text


@pytest.mark.parametrize(
    "question",
    [
        "what do we know about waybill?",
        "Tell me about Waybill",
        "what did we decide about waybill",
        "was wissen wir über waybill?",
        "waybill",
    ],
)
def test_a_question_that_names_a_project_alone_is_known(question: str) -> None:
    assert asks_of_alone(question, "waybill-4acde5")


@pytest.mark.parametrize("question", ["who owns waybill?", "waybill port", "tell me about ships", "waybillet", ""])
def test_a_question_for_more_than_a_project_is_another(question: str) -> None:
    assert not asks_of_alone(question, "waybill-4acde5")


def test_the_parts_of_a_projects_name_may_stand_apart() -> None:
    assert asks_of_alone("tell me about the boat shop", "boat-shop-0a1b2c")
    assert not asks_of_alone("tell me about the boat", "boat-shop-0a1b2c")
