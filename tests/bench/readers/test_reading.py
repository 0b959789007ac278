from __future__ import annotations

import pytest

from .reading import (
    Precision,
    holds_now,
    is_kept,
    is_told,
    is_usable,
    judge_pairs,
    keys_of,
    relation_of,
    usable_share,
    words_of,
)

GOLD = [["postgres", "postgresql"], ["16"]]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("We run PostgreSQL 16 now", True),
        ("We run Postgres", False),
        ("16 tests", False),
        ("", False),
    ],
)
def test_of_each_group_one_alternative_is_told(text: str, told: bool) -> None:
    assert is_told(text, GOLD) is told


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("- We run Postgres 16", True),
        ("- We run SQLite\n- We run Postgres 16", False),
        ("- We run Postgres 16\n- We run SQLite", True),
        ("- We moved from SQLite to Postgres 16", True),
        ("- until 3 May: we run SQLite\n- We run Postgres 16", True),
        ("- We run SQLite (later: Postgres 16)", True),
        ("- We run SQLite", False),
        ("- We run SQLite no longer\n- We run Postgres 16", False),
    ],
)
def test_an_old_value_told_as_if_it_held_is_a_wrong_answer(text: str, right: bool) -> None:
    assert holds_now(text, GOLD, ["sqlite"]) is right


@pytest.mark.parametrize(
    ("line", "usable"),
    [
        ("- 2 Mar 2026, Ines: we moved the shop to Postgres", True),
        ("Deploys go out on Thursdays, never on Fridays.", True),
        ("- Future Growth;", False),
        ("## What came of the restore drill", False),
        ("- **Backups and restores of the ledger**", False),
        ("- 2 Mar 2026, Ines: ok, do that", False),
        ("Here are some ideas for the launch of it:", False),
        ('- 2 Mar 2026, Ines: "Here are some ideas for the launch:"', False),
        ('- 2 Mar 2026, Ines: "and then we moved the shop to …"', False),
        ('- 2 Mar 2026, assistant: "**Backups and restores of the ledger**"', False),
        ('"We said this before, and it still holds: not on Fridays"', False),
    ],
)
def test_a_heading_or_a_fragment_is_of_no_use(line: str, usable: bool) -> None:
    assert is_usable(line) is usable


def test_an_empty_envelope_has_no_lines_to_judge() -> None:
    assert usable_share(["", "- Future Growth;\n- We moved the shop to Postgres"]) == 0.5


def test_a_turn_is_kept_where_one_fact_has_half_of_its_words() -> None:
    facts = [frozenset(words_of("The till speaks to the bakery's scale on port 4001"))]
    assert is_kept("the till speaks to the scale, port 4001, since Monday", facts)
    assert not is_kept("the museum opens again on Tuesday", facts)


FILE = "---\nnode_id: {}\n{}\n---\n\nsaid: superseded_by: abcdefghij22\n"


@pytest.mark.parametrize(
    ("old", "new", "seen"),
    [
        ("superseded_by: bbbbbbbbbbbbb", "level: L1", "updates"),
        ("level: L1", "supersedes: [aaaaaaaaaaaaa]", "updates"),
        ("level: L1", "contradicts:\n  - aaaaaaaaaaaaa", "contradicts"),
        ("later: [bbbbbbbbbbbbb]", "level: L1", "later"),
        ("reinforced: 2", "level: L1", "same"),
        ("level: L1", "superseded_by: aaaaaaaaaaaaa", "none"),
        ("level: L1", "level: L1", "none"),
    ],
)
def test_two_files_tell_what_was_made_of_their_statements(old: str, new: str, seen: str) -> None:
    assert relation_of(FILE.format("aaaaaaaaaaaaa", old), FILE.format("bbbbbbbbbbbbb", new)) == seen


def test_one_memory_of_two_statements_is_the_same() -> None:
    assert relation_of(None, FILE) == relation_of(FILE, FILE) == "same"


def test_the_ids_of_a_key_stand_in_its_lines() -> None:
    keys = keys_of(
        "---\ntype: Fact\nlater:\n- aaaaaaaaaaaaa\n- bbbbbbbbbbbbb\nkind: fact\n---\nlater: [ccccccccccccc]\n"
    )
    assert keys["later"] == {"aaaaaaaaaaaaa", "bbbbbbbbbbbbb"}


def test_precision_and_recall_of_one_relation() -> None:
    found = [
        ("updates", "updates"),
        ("updates", "none"),
        ("same", "updates"),
        ("adds", "none"),
        ("contradicts", "updates"),
    ]
    assert judge_pairs(found, "updates") == Precision(1, 2, 2)
    assert judge_pairs(found, "updates", frozenset({"contradicts"})) == Precision(1, 1, 2)
    assert str(judge_pairs(found, "updates")) == "0.33 / 0.50"
    assert judge_pairs(found, "same").precision == 0.0
