"""What comes up again: facts of one kind that are alike, or one that was said again, in several sessions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from dreamd.pipelines.stages import synthesis
from dreamd.store.model import Kind, Memory

from tests.pipelines.pages.said import said

LOCKED = [said(f"Never write from two workers {n}.", f"s{n}#1", Kind.NEGATIVE) for n in (1, 2, 3)]
STAGED = replace(said("First staging, then production.", "s1#2", Kind.PROCEDURE), sources=("s1#2", "s4#3"))
ONCE = said("No second server.", "s1#4", Kind.NEGATIVE)


def groups(*facts: Memory) -> synthesis.Groups:
    subjects = {fact.node_id: 0 if fact in LOCKED else n for n, fact in enumerate(facts, start=1)}
    return synthesis.recurring_facts(facts, {key: np.eye(9, dtype=np.float32)[n] for key, n in subjects.items()})


def test_alike_facts_of_several_sessions_and_what_was_said_again_are_one_group_each() -> None:
    found = groups(*LOCKED, STAGED, ONCE)
    assert [(heading, [len(group) for group in each]) for heading, each in found] == [
        ("Refused", [3]),
        ("Procedures", [1]),
    ]
    text, ids = synthesis.insight_body(found)
    assert text.splitlines()[2:5] == [
        "- 4 March 2026: “Never write from two workers 3.” [^m1]",
        "  - 3 March 2026: “Never write from two workers 2.” [^m2]",
        "  - 2 March 2026: “Never write from two workers 1.” [^m3]",
    ]
    assert len(ids) == 4


def test_too_little_makes_no_page() -> None:
    assert groups(*LOCKED, ONCE) == []
    assert groups(ONCE, *(replace(fact, superseded_by="n") for fact in LOCKED), STAGED) == []
