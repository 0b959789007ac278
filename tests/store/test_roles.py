"""The role of a speaker, whatever other programs call it."""

from __future__ import annotations

import pytest
from dreamd.store.memory import MemoryStore
from dreamd.store.model import NewTurn, SessionHead
from dreamd.store.okf import session
from dreamd.store.roles import Role, role_of
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("said", "role"),
    [
        *((word, Role.ASSISTANT) for word in ("assistant", "Assistant", "ASSISTANT", " ai ", "AI", "model", "gpt")),
        *((word, Role.ASSISTANT) for word in ("ChatGPT", "GPT-4o", "gpt-3.5-turbo", "claude-3-opus-20240229", "bot")),
        *((word, Role.ASSISTANT) for word in ("Claude", "Claude 3.5", "claude-sonnet-4", "gemini-2.5", "llama3:8b")),
        *((word, Role.USER) for word in ("user", "User", "HUMAN", "human", "me", "Me", "prompter")),
        *((word, Role.TOOL) for word in ("tool", "Function", "tool_result", "toolResult", "function_call_output")),
        *((word, Role.SYSTEM) for word in ("system", "System", "developer")),
    ],
)  # fmt: skip
def test_every_name_of_a_part_is_that_part(said: str, role: Role) -> None:
    assert role_of(said) == role
    assert NewTurn(said, "x").role == role


@pytest.mark.parametrize("name", ["Ann", "Claude Monet", "Melanie", "O'Brien", "Élodie", "李", "Gemma Arterton", "Max"])
def test_a_speakers_name_stays_a_name(name: str) -> None:
    assert role_of(name) == name


@given(st.text(max_size=300))
def test_twice_is_once(said: str) -> None:
    assert role_of(role_of(said)) == role_of(said)


def test_a_file_of_before_is_read_by_the_same_rule() -> None:
    turn = session.encode_turn(NewTurn("user", "hello"), 1).replace(b'role="user"', b'role="Assistant"')
    (read,) = session.parse(b"---\ntype: Session\n---\n\n" + turn, session_id="s").turns
    assert read.role == Role.ASSISTANT


def test_what_an_assistant_says_is_an_assistants_whatever_it_is_called(store: MemoryStore) -> None:
    store.observe(SessionHead("s", "_global"), [NewTurn("Model", "Use Postgres."), NewTurn("Human", "Fine.")]).result()
    store.settle()
    assert [store.catalog.node(f"s#{n}").role for n in (1, 2)] == [Role.ASSISTANT, Role.USER]  # type: ignore[union-attr]
