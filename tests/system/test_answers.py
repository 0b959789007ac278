"""Every answer of a real daemon has the type that is declared for it, and every declared field is answered."""

from __future__ import annotations

from typing import get_type_hints

import pytest
from dreamd.ipc.answers import ANSWERS

from tests.answer_types import faults, seen, typed_dicts
from tests.system.recording import Recording

pytestmark = [pytest.mark.system, pytest.mark.xdist_group("recorded")]


@pytest.mark.parametrize("method", sorted(ANSWERS))
def test_a_real_answer_is_of_the_declared_type(recorded: Recording, method: str) -> None:
    assert recorded.answers[method]
    assert [fault for answer in recorded.answers[method] for fault in faults(answer, ANSWERS[method], method)] == []


def test_every_declared_field_is_in_a_real_answer(recorded: Recording) -> None:
    parts = {part for declared in ANSWERS.values() for part in typed_dicts(declared)}
    declared = {f"{part.__name__}.{name}" for part in parts for name in get_type_hints(part)}
    answered = {
        field
        for method, answers in recorded.answers.items()
        for answer in answers
        for field in seen(answer, ANSWERS[method])
    }
    assert answered == declared
