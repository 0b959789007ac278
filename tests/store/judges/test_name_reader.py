"""The reader of names, by the weights that ship."""

from __future__ import annotations

import pytest
from dreamd.store.judges.judge import JudgedTurn
from dreamd.store.judges.name_reader import (
    ENDS,
    NAMED,
    PROJECT,
    RELATIONS,
    NamedSpan,
    NamesRead,
    marked,
    names_reader,
    windows_of,
)
from dreamd.store.okf.entity_page import EntityType, RelationType
from hypothesis import given
from hypothesis import strategies as st


def read(text: str, before: str = "", role: str = "user") -> NamesRead:
    (one,) = names_reader().turns([JudgedTurn(role, text, before)])
    return one


def names_in(text: str) -> dict[str, str]:
    return {text[one.start : one.end]: one.named for one in read(text).names if one.sureness >= 0.5}


def stated(text: str, before: str = "") -> set[tuple[str, str, str]]:
    def words(end: NamedSpan | str) -> str:
        return end if isinstance(end, str) else (before, text)[end.part][end.start : end.end]

    return {
        (words(one.subject), one.relation, words(one.object))
        for one in read(text, before).relations
        if one.sureness >= 0.9
    }


def test_the_reader_knows_the_kinds_and_relations_of_pages_and_no_other() -> None:
    assert set(NAMED) == {*map(str, EntityType), "phrase"}
    assert set(RELATIONS) == {*map(str, RelationType), ""}


def test_people_and_things_are_read_in_any_case_and_language() -> None:
    named = names_in("Priyanka moved the billing service from MySQL to postgres 16 last week.")
    assert (named["Priyanka"], named["postgres 16"]) == ("person", "tool")
    assert names_in("frag mal annegret, die macht das")["annegret"] == "person"


def test_a_change_states_what_replaces_what_and_what_is_used() -> None:
    said = stated("we switched from webpack to vite yesterday")
    assert {("webpack", "REPLACED_BY", "vite"), (PROJECT, "USES", "vite")} <= said


def test_an_assistants_turn_has_names_and_no_relations() -> None:
    found = read("Anneke owns the importer now.", role="assistant")
    assert found.names
    assert found.relations == ()


@given(st.text(max_size=400), st.text(max_size=200))
def test_the_places_of_tokens_lie_in_their_text(text: str, before: str) -> None:
    for window in windows_of("user", text, before):
        assert len(window.ids) == len(window.places) == len(window.features)
        for place in window.places:
            if place is not None:
                part, start, end = place
                assert 0 <= start <= end <= len((before, text)[part])


@pytest.mark.parametrize("text", ["", "…", "ok", "word " * 2_000, "名前は田中です。"])
def test_any_text_can_be_read(text: str) -> None:
    for one in read(text).names:
        assert text[one.start : one.end].strip()


def test_marks_stand_around_the_two_ends() -> None:
    ids = [101, 7, 8, 9, 102]
    person, project = ENDS.index("person"), ENDS.index(PROJECT)
    kinds = [1_000_000 + kind for kind in range(len(ENDS))]
    found, subject, object_ = marked(ids, (person, 2, 3), (project, 0, 1), kinds)
    assert found == [101, 1001, kinds[project], 1001, 7, 1030, kinds[person], 8, 1030, 9, 102]
    assert (found[subject], found[object_]) == (1030, 1001)
