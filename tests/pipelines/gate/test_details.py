"""Details: names, numbers, dates and reasons are told apart from other words, in every language and however written."""

from __future__ import annotations

import pytest
from dreamd.pipelines.gate.details import contained, details_of, only_shortens, written_as_names
from dreamd.store.text.words import stem


def names_of(text: str, names: frozenset[str] = frozenset()) -> set[str]:
    return {next(iter(detail)) for detail in details_of(text, names) if len(detail) == 1}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("The port of the proxy is 5432 for Marek.", {"5432", "marek"}),
        ("We log in at db-2.harbour.example and run app.py there.", {"db-2.harbour.example", "app.py"}),
        ("Wir fragen morgen früh noch einmal Aurelia.", {"aurelia"}),
        ("I'm sure that I said so.", set()),
    ],
)
def test_names_and_numbers_are_details(text: str, wanted: set[str]) -> None:
    assert names_of(text) == {stem(word) for word in wanted}


def test_a_name_that_opens_a_sentence_is_known_from_elsewhere() -> None:
    names = written_as_names(["We asked Priya. Then they asked us.", "It was Priya who knew."])
    assert names == {"priya"}
    assert names_of("Priya took over. Then nobody asked.", names) == {stem("priya")}


@pytest.mark.parametrize("written", ["2026-03-04", "4 March 2026", "March 4th 2026", "4. März 2026", "4 de marzo 2026"])
def test_a_date_is_the_same_in_every_writing(written: str) -> None:
    wanted = details_of("It holds from 4 March 2026 on.")
    assert len(wanted) == 3
    assert contained(wanted, f"From {written} on it holds.") == wanted


@pytest.mark.parametrize(
    ("text", "without"),
    [
        ("We keep plain files because grep must find them.", "We keep plain files."),
        ("Wir nehmen einfache Dateien, weil grep alles finden muss.", "Wir nehmen einfache Dateien."),
        ("Usamos archivos simples porque grep debe encontrarlos.", "Usamos archivos simples."),
    ],
)
def test_a_reason_is_told_as_a_whole_or_not(text: str, without: str) -> None:
    (reason,) = [detail for detail in details_of(text) if len(detail) > 1]
    assert contained([reason], text) == {reason}
    assert contained([reason], without) == set()


@pytest.mark.parametrize(
    ("newer", "is_less"),
    [
        ("The blue ladder belongs to Marek", True),
        ("The blue ladder belongs to someone, number 312", True),
        ("The blue ladder belongs to Priya now", False),
        ("The blue ladder belongs to Marek, number 518", False),
        ("The blue ladder went to the harbour for good", False),
        ("The blue ladder belongs to Marek, number 312", False),
    ],
)
def test_a_text_that_leaves_out_a_detail_says_less_unless_it_brings_another(newer: str, is_less: bool) -> None:
    assert only_shortens(newer, "The blue ladder belongs to Marek, number 312") is is_less
