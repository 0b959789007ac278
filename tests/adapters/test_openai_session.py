"""A session of the OpenAI Agents SDK over a real daemon, against the SDK's own over SQLite."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

import pytest
from dreamd.ipc.client import DaemonError, Unreachable
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.adapters.conftest import client_of
from tests.bench.daemon_under_test import DaemonUnderTest

pytest.importorskip("agents", reason="`make test-adapters` installs the packages that have adapters")

from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage
from agents.memory import Session, SessionSettings, SQLiteSession
from dreamd.ipc.adapters.openai_session import DreamdSession
from openai.types.responses import ResponseOutputMessage, ResponseOutputText

pytestmark = pytest.mark.adapters

ITEMS = st.one_of(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": st.text(max_size=30)}),
    st.fixed_dictionaries(
        {
            "type": st.just("function_call_output"),
            "call_id": st.text("abc", min_size=1, max_size=3),
            "output": st.text(max_size=30) | st.none() | st.floats(allow_nan=False, allow_infinity=False),
        }
    ),
)
STEPS = st.one_of(
    st.tuples(st.just("add_items"), st.lists(ITEMS, max_size=4)),
    st.tuples(st.just("get_items"), st.none() | st.integers(-2, 8)),
    st.tuples(st.just("pop_item"), st.none()),
    st.tuples(st.sampled_from(["clear_session", "open_again"]), st.none()),
)
names = count()


def session_of(daemon: DaemonUnderTest, session_id: str = "", **more: Any) -> DreamdSession:
    return DreamdSession(session_id or f"session {next(names)}", client_of(daemon), **{"learn": False} | more)


@given(steps=st.lists(STEPS, min_size=1, max_size=15), limit=st.none() | st.integers(0, 4))
@settings(max_examples=80, deadline=None)
def check_equal(daemon: DaemonUnderTest, steps: list[tuple[str, Any]], limit: int | None) -> None:
    kept = SessionSettings(limit=limit)
    ours = session_of(daemon, session_settings=kept)
    reference = SQLiteSession(ours.session_id, session_settings=kept)

    async def compare() -> None:
        nonlocal ours
        for method, given_ in [*steps, ("get_items", None), ("get_items", -1)]:
            if method == "open_again":
                ours = session_of(daemon, ours.session_id, session_settings=kept)
                continue
            arguments = [] if method in ("pop_item", "clear_session") else [given_]
            expected = await getattr(reference, method)(*arguments)
            assert await getattr(ours, method)(*arguments) == expected, (method, given_)

    try:
        asyncio.run(compare())
    finally:
        reference.close()


def test_every_answer_is_the_references(shared: DaemonUnderTest) -> None:
    assert isinstance(session_of(shared), Session)
    check_equal(shared)


def test_more_items_than_a_document_holds_are_kept_in_order(shared: DaemonUnderTest) -> None:
    items: list[Any] = [{"role": "user", "content": f"{number} {'x' * 300_000}"} for number in range(8)]

    async def keep() -> list[Any]:
        ours = session_of(shared)
        await ours.add_items(items)
        assert await ours.get_items(2) == items[-2:]
        assert await ours.pop_item() == items[-1]
        return list(await ours.get_items())

    assert asyncio.run(keep()) == items[:-1]


def test_an_item_that_fits_nowhere_is_refused(shared: DaemonUnderTest) -> None:
    with pytest.raises(DaemonError, match="bytes"):
        asyncio.run(session_of(shared).add_items([{"role": "user", "content": "x" * 1_020_000}]))


def test_of_two_who_add_at_once_nothing_is_lost(shared: DaemonUnderTest) -> None:
    async def add() -> list[Any]:
        one, other = session_of(shared, "raced"), session_of(shared, "raced")
        texts = [{"role": "user", "content": str(number)} for number in range(30)]
        for at in range(0, 28, 4):
            await asyncio.gather(one.add_items(texts[at : at + 2]), other.add_items(texts[at + 2 : at + 4]))
        return [int(item["content"]) for item in await one.get_items()]

    kept = asyncio.run(add())
    assert sorted(kept) == list(range(28))
    assert [second - first for first, second in zip(kept[::2], kept[1::2], strict=True)] == [1] * 14  # side by side


def test_one_session_of_two_users_is_two(shared: DaemonUnderTest) -> None:
    users = {name: session_of(shared, "of two", user_id=name, learn=True, channel="books") for name in ("ana", "bob")}

    async def keep() -> dict[str, Any]:
        for name, ours in users.items():
            await ours.add_items([{"role": "user", "content": f"Invoices of {name} are in crowns."}])
        return {name: [item["content"] for item in await ours.get_items()] for name, ours in users.items()}

    assert asyncio.run(keep()) == {name: [f"Invoices of {name} are in crowns."] for name in users}
    # Of one id of a session only the first user's is learned: the other's words are in no part that is not theirs.
    (learned,) = shared.call("list", kind="turn", channel="books", user_id="ana")["memories"]
    assert (learned["title"], learned["channel"]) == ("Invoices of ana are in crowns.", "books/@ana")


def test_what_was_acknowledged_survives_kill_9(daemon: DaemonUnderTest) -> None:
    ours = session_of(daemon, "killed")
    items: list[Any] = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]
    asyncio.run(ours.add_items(items))
    assert asyncio.run(ours.pop_item()) == items[1]
    daemon.kill()
    for call in (ours.add_items(items), ours.get_items(), ours.pop_item(), ours.clear_session()):
        with pytest.raises(Unreachable):
            asyncio.run(call)
    daemon.start()
    daemon.wait_until_it_answers()
    assert asyncio.run(session_of(daemon, "killed").get_items()) == items[:1]


def test_what_was_learned_stays_when_its_item_goes(shared: DaemonUnderTest) -> None:
    async def talk() -> None:
        ours = session_of(shared, "popped", channel="boats", learn=True)
        await ours.add_items([{"role": "user", "content": "The hull of the Anna is oak."}])
        assert await ours.pop_item() == {"role": "user", "content": "The hull of the Anna is oak."}
        assert await ours.get_items() == []
        quiet = session_of(shared, "quiet", channel="boats")
        await quiet.add_items([{"role": "user", "content": "The hull of the Berta is steel."}])

    asyncio.run(talk())
    hits = shared.call("recall", query="What are the hulls made of?", channel="boats")["hits"]
    assert [hit["text"] for hit in hits] == ["The hull of the Anna is oak."]


def test_what_cannot_be_learned_is_kept_all_the_same(shared: DaemonUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = session_of(shared, learn=True)
    client = client_of(shared)
    call = client.call

    def refuse_to_learn(method: str, *more: Any, **named: Any) -> Any:
        if method == "observe":
            raise Unreachable("not now")
        return call(method, *more, **named)

    monkeypatch.setattr(client, "call", refuse_to_learn)
    items: list[Any] = [{"role": "user", "content": "The key is AKIAIOSFODNN7EXAMPLE."}]
    asyncio.run(ours.add_items(items))
    assert asyncio.run(ours.get_items()) == [{"role": "user", "content": "The key is [redacted:aws]."}]


class Echo(Model):
    """A model that says how many items it was given."""

    async def get_response(self, *more: Any, **named: Any) -> ModelResponse:
        text = ResponseOutputText(type="output_text", text=f"I was given {len(named['input'])}.", annotations=[])
        said = ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[text])
        return ModelResponse(output=[said], usage=Usage(), response_id=None)

    def stream_response(self, *more: Any, **named: Any) -> Any:
        raise NotImplementedError


def test_the_runner_remembers_over_runs_and_what_was_said_is_learned(shared: DaemonUnderTest) -> None:
    agent = Agent(name="echo", model=Echo())
    quiet = RunConfig(tracing_disabled=True)

    async def talk() -> list[str]:
        said = []
        for text in ("My invoices are in Danish crowns.", "And my ledger is green."):
            session = session_of(shared, "talk", channel="books", learn=True)
            said.append((await Runner.run(agent, text, session=session, run_config=quiet)).final_output)
        return said

    assert asyncio.run(talk()) == ["I was given 1.", "I was given 3."]
    hits = shared.call("recall", query="Which currency are the invoices in?", channel="books")["hits"]
    assert (hits[0]["kind"], hits[0]["text"]) == ("turn", "My invoices are in Danish crowns.")
    assert not [hit for hit in hits if hit["kind"] == "document"]
