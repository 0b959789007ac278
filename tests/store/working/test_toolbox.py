"""The use of tools, and their choice, over a real store: sessions are observed as programs write them."""

from __future__ import annotations

from datetime import timedelta

from dreamd.store.memory import MemoryStore
from dreamd.store.model import NewTurn, SessionHead
from dreamd.store.results import OfferedTool

from tests.store.conftest import NOW

OFFERED = [
    OfferedTool("create_issue", "Create a new issue in a repository"),
    OfferedTool("send_mail", "Send an e-mail immediately"),
    OfferedTool("forecast", "Get the weather of a place"),
    OfferedTool("bare"),
]


def observe(store: MemoryStore, *turns: tuple[str, str], session: str = "first", channel: str = "waybill") -> None:
    head = SessionHead(session, channel, agent_id="codex")
    said = [NewTurn(role, text, NOW + timedelta(seconds=3 * n), f"{n}") for n, (role, text) in enumerate(turns)]
    store.observe(head, said).result()
    store.settle()


def test_calls_failures_and_times_are_counted_by_project_and_program(store: MemoryStore) -> None:
    test = ("assistant", "[Bash: cargo test]")
    done, failed = ("tool", "[Bash result]\nok"), ("tool", "[Bash failed]\nno")
    plan = ("assistant", "[doing: write the tests]")
    observe(store, test, failed, plan, test, done, test, done, ("assistant", "[mcp__ide-tools__open: a.rs]"))
    observe(store, test, done, session="second", channel="wayfinder")
    uses = {(use.tool, use.channel): use for use in store.tool_uses(None)}
    both = uses["Bash", "waybill"]
    assert (both.calls, both.failures, both.median_s, both.agent) == (3, 1, 3.0, "codex")
    assert uses["Bash: cargo test", "waybill"].calls == 3
    assert uses["mcp__ide-tools__open", "waybill"].median_s is None
    assert not any(tool == "doing" or (tool, channel) == ("Bash: cargo test", "wayfinder") for tool, channel in uses)
    assert {use.channel for use in store.tool_uses("wayfinder")} == {"wayfinder"}


def test_a_request_gets_the_tools_that_share_its_meaning_or_words(store: MemoryStore) -> None:
    chosen = store.select_tools("open a new issue in the repository", OFFERED, 2)
    assert chosen[0].name == "create_issue"
    assert len(chosen) == 2
    assert [one.name for one in store.select_tools("the bare one", OFFERED[-1:], 5)] == ["bare"]


def test_what_served_such_a_request_before_is_chosen(store: MemoryStore) -> None:
    asked = "tell Ana that the offer is accepted"
    assert store.select_tools(asked, OFFERED, 1)[0].served == ""
    observe(
        store,
        ("user", "tell Ana that the offer is late"),
        ("assistant", "[mcp__post__send_mail: Ana]"),
        ("user", "tell Ana that the offer is accepted now"),
        ("assistant", "[mcp__post__forecast: Ana]"),
        ("tool", "[mcp__post__forecast failed]\nno such place"),
    )
    (chosen,) = store.select_tools(asked, OFFERED, 1, "waybill")
    assert (chosen.name, chosen.served) == ("send_mail", "tell Ana that the offer is late")
    store.operations.toolbox.forget()
    assert store.select_tools(asked, OFFERED, 1, "waybill") == [chosen]


def test_the_words_of_one_project_are_not_told_to_another(store: MemoryStore) -> None:
    observe(store, ("user", "tell Ana that the offer is late"), ("assistant", "[mcp__post__send_mail: Ana]"))
    (chosen,) = store.select_tools("tell Ana that the offer is accepted", OFFERED, 1, "wayfinder")
    assert (chosen.name, chosen.served) == ("send_mail", "")
