from __future__ import annotations

from typing import Any

import pytest
from dreamd.ipc.params import NoParams
from dreamd.ipc.protocol import Request
from dreamd.ipc.server.lanes import REST_EVERY_S, Lanes, OpenRequest

from tests.ipc.methods import AnyMethod, method

AGENT = method(NoParams, lambda params, call: {}, first=True)
OTHER = method(NoParams, lambda params, call: {})


class Answering:
    """Lanes with a clock of their own, and what they have begun."""

    def __init__(self, threads: int, each: int = 2, kept_free: int = 0) -> None:
        self.now = 0.0
        self.begun: list[OpenRequest] = []
        self.lanes = Lanes(self.begun.append, lambda: self.now, threads, each, kept_free)

    def put(self, connection: str, handler: AnyMethod = OTHER, times: int = 1) -> None:
        for _ in range(times):
            self.lanes.put(request(connection, handler))

    def end_first(self) -> None:
        self.lanes.done(self.begun.pop(0))

    def connections(self) -> str:
        return "".join(str(each.client) for each in self.begun)


def request(connection: Any, handler: AnyMethod) -> OpenRequest:
    return OpenRequest(connection, Request(1, "x", {}), handler, lambda request, future: None)


def test_connections_take_turns_however_much_one_asks() -> None:
    answering = Answering(threads=1)
    answering.put("a", times=5)
    answering.put("b", times=2)
    answering.put("c")
    order = ""
    while answering.begun:
        order += answering.connections()
        answering.end_first()
    assert order == "aabcabaa"[: len(order)] or order == "abcabaaa"
    assert sorted(order) == sorted("aaaaabbc")
    assert order.index("c") <= 3


def test_one_client_gets_at_most_its_share_of_threads() -> None:
    answering = Answering(threads=4, each=2)
    answering.put("a", times=5)
    assert answering.connections() == "aa"
    answering.put("b")
    assert answering.connections() == "aab"
    answering.end_first()
    assert answering.connections() == "aba"


def test_a_second_thread_is_given_only_while_another_client_still_finds_one() -> None:
    answering = Answering(threads=4, each=2)
    for hungry in "abc":
        answering.put(hungry, times=4)
    assert answering.connections() == "aabc"  # "a" was alone when it had its second
    answering.end_first()
    assert answering.connections() == "abc"  # the fourth waits for somebody else
    answering.put("d")
    assert answering.connections() == "abcd"


def test_an_agent_s_request_comes_before_the_rest() -> None:
    answering = Answering(threads=1)
    answering.put("a", times=20)
    answering.put("b", AGENT)
    answering.end_first()
    assert answering.connections() == "b"


def test_threads_are_kept_free_for_agents() -> None:
    answering = Answering(threads=4, kept_free=2)
    for connection in "abcdef":
        answering.put(connection)
    assert answering.connections() == "ab"
    answering.put("g", AGENT)
    assert answering.connections() == "abg"


def test_beside_agents_the_rest_goes_slowly_and_does_not_starve() -> None:
    answering = Answering(threads=4, kept_free=2)
    answering.put("a", AGENT)
    answering.put("b")
    assert answering.connections() == "ab"
    answering.lanes.done(answering.begun.pop(1))
    answering.put("c")
    assert answering.connections() == "a"
    answering.now += REST_EVERY_S
    answering.put("d", AGENT)
    assert answering.connections() == "adc"


def test_the_rest_goes_on_when_the_agents_have_their_answers() -> None:
    answering = Answering(threads=4, kept_free=2)
    answering.put("a", AGENT)
    answering.put("b")
    answering.lanes.done(answering.begun.pop(1))
    answering.put("c")
    answering.end_first()
    assert answering.connections() == "c"


def test_a_dropped_request_is_never_begun() -> None:
    answering = Answering(threads=1)
    answering.put("a")
    gone = request("a", OTHER)
    answering.lanes.put(gone)
    assert answering.lanes.drop(gone)
    assert not answering.lanes.drop(gone)
    answering.end_first()
    assert answering.begun == []


@pytest.mark.parametrize("handler", [AGENT, OTHER])
def test_one_thread_serves_both_lanes(handler: AnyMethod) -> None:
    answering = Answering(threads=1, kept_free=1)
    answering.put("a", handler)
    assert answering.connections() == "a"


def test_the_example_of_the_module_holds() -> None:
    answering = Answering(threads=4, each=2, kept_free=2)
    answering.put("A", times=3)
    answering.put("B")
    assert answering.connections() == "AA"
    answering.put("C", AGENT, times=2)
    assert answering.connections() == "AAC"
    answering.end_first()
    assert answering.connections() == "ACC"
    answering.now += REST_EVERY_S
    answering.end_first()
    assert answering.connections() == "CCA"
    answering.end_first()
    answering.end_first()
    assert answering.connections() == "AB"
