"""Documents over the wire of a real daemon: kept through a kill, guarded, and bounded."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from dreamd.ipc.client import Client, DaemonError
from dreamd.ipc.protocol import CONFLICT, INVALID_PARAMS
from dreamd.store.channel import channel_of_folder

from tests.bench.daemon_under_test import DaemonUnderTest
from tests.bench.deletes import KINDS, stale
from tests.system.waiting import until

pytestmark = pytest.mark.system

MOST_VALUE_BYTES = 2**20 - 2**15


def listed(daemon: DaemonUnderTest, **params: Any) -> dict[str, Any]:
    """Return the value of every document by its key, page by page."""
    found: dict[str, Any] = {}
    after = None
    while True:
        page = daemon.call("document_list", after=after, **params)
        found |= {each["key"]: each["value"] for each in page["documents"]}
        if (after := page["next"]) is None:
            return found


def test_what_was_acknowledged_survives_kill_9(daemon: DaemonUnderTest) -> None:
    kept: list[dict[str, str]] = [{} for _ in range(3)]

    def write(writer: int) -> None:
        wire, mine = daemon.wire(), kept[writer]
        space = ["writer", str(writer)]
        try:
            for number in range(10_000):
                key, text = f"note {number % 20}", f"Writer {writer} counted to {number}."
                mine[key] = "?"  # until it is acknowledged, either may be there
                if number % 7 == 6:
                    wire.call("document_delete", space=space, key=key)
                    mine.pop(key, None)
                else:
                    wire.call("document_put", space=space, key=key, value=text)
                    mine[key] = text
        except OSError:
            wire.close()

    writers = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for writer in writers:
        writer.start()
    until(lambda: sum(map(len, kept)) > 45)
    daemon.kill()
    for writer in writers:
        writer.join()
    daemon.start()
    daemon.wait_until_it_answers()
    for number, mine in enumerate(kept):
        found = listed(daemon, space=["writer", str(number)])
        certain = {key: text for key, text in mine.items() if text != "?"}
        assert certain.items() <= found.items()
        assert found.keys() <= mine.keys()


def test_a_listing_is_of_a_space_in_the_order_in_which_its_documents_were_made(daemon: DaemonUnderTest) -> None:
    for key in ("plan/two", "plan/one", "list"):
        daemon.call("document_put", space=["house"], key=key, value={"of": key})
    daemon.call("document_put", space=["house", "attic"], key="plan/three", value=3)
    daemon.call("document_put", space=["garden"], key="plan/four", value=4)
    daemon.call("document_put", space=["house"], key="plan/two", value={"of": "plan/two"})  # which moves it nowhere

    def keys(**params: Any) -> list[str]:
        return [each["key"] for each in daemon.call("document_list", **params)["documents"]]

    assert keys(space=["house"]) == ["plan/two", "plan/one", "list"]
    assert keys(space=["house"], prefix="plan/") == ["plan/two", "plan/one"]
    assert keys(space=["house"], prefix="plan/", deep=True) == ["plan/two", "plan/one", "plan/three"]
    assert keys() == ["plan/two", "plan/one", "list", "plan/three", "plan/four"]
    assert list(listed(daemon, space=["house"], limit=1)) == ["plan/two", "plan/one", "list"]
    assert listed(daemon, space=["house"], values=False) == dict.fromkeys(("plan/two", "plan/one", "list"))
    shown = daemon.call("document_list", space=["house"], limit=1)["documents"][0]
    assert shown == daemon.call("document_get", space=["house"], key="plan/two")["document"]
    assert daemon.call("document_get", space=["house"], key="nowhere") == {"document": None}


def test_the_longest_value_comes_back_and_a_longer_one_is_refused(shared: DaemonUnderTest) -> None:
    longest = "\\" * (MOST_VALUE_BYTES // 2 - 1)
    place = {"space": ["long"], "key": "k"}
    with Client(shared.socket_path, timeout_s=60) as client:
        client.call("document_put", {"value": longest, **place})
        assert client.call("document_get", place)["document"]["value"] == longest
        client.call("document_put", {"value": longest, **place, "key": "k2"})
        assert [each["key"] for each in client.call("document_list", {"space": ["long"]})["documents"]] == ["k"]
        with pytest.raises(DaemonError) as refused:
            client.call("document_put", {"value": longest + "\\\\", **place})
    assert refused.value.code == INVALID_PARAMS
    assert listed(shared, space=["long"]) == {"k": longest, "k2": longest}


def test_of_two_who_replace_a_version_one_is_refused(shared: DaemonUnderTest) -> None:
    place = {"space": ["raced"], "key": "k"}
    version = shared.call("document_put", value=0, **place)["version"]
    outcomes: list[int | None] = []

    def replace(value: int) -> None:
        with Client(shared.socket_path) as client:
            try:
                client.call("document_put", {"value": value, "if_version": version, **place})
            except DaemonError as error:
                outcomes.append(error.code)
            else:
                outcomes.append(None)

    racing = [threading.Thread(target=replace, args=(number,)) for number in range(1, 5)]
    for one in racing:
        one.start()
    for one in racing:
        one.join()
    assert sorted(outcomes, key=str) == [*[CONFLICT] * 3, None]


def test_one_key_of_two_users_and_the_owner_is_three_documents(daemon: DaemonUnderTest) -> None:
    place: dict[str, Any] = {"space": ["house"], "key": "plan"}
    users: dict[str, Any] = {"ana": {"user_id": "ana"}, "bob": {"user_id": "bob"}, "all": {}}
    for name, user in users.items():
        daemon.call("document_put", value=f"the plan of {name}", if_version="", channel="shop", **place, **user)

    def held() -> dict[str, Any]:
        got = {name: daemon.call("document_get", **place, **user)["document"] for name, user in users.items()}
        return {name: found and found["value"] for name, found in got.items()}

    assert held() == {name: f"the plan of {name}" for name in users}
    (own,) = daemon.call("document_list", user_id="ana")["documents"]
    assert (own["space"], own["channel"]) == (["house"], "shop/@ana")
    asked = {"query": "the plan", "user_id": "ana"}
    assert [hit["space"] for hit in daemon.call("document_search", **asked)["hits"]] == [["house"]]
    spaces = [found["space"] for found in daemon.call("document_list")["documents"]]
    assert spaces == [["@ana", "house"], ["@bob", "house"], ["house"]]

    assert daemon.call("document_rename", to="old plan", **place, **users["bob"])["documents"] == 1
    deleted = daemon.call("document_delete", space=["house"], user_id="ana")
    assert deleted["documents"] == 1
    assert held() == {"ana": None, "bob": None, "all": "the plan of all"}
    assert daemon.call("undo", run_id=deleted["run_id"], user_id="ana")["restored"] == 1
    assert held()["ana"] == "the plan of ana"
    daemon.call("purge", channel="shop", user_id="ana")
    assert held() == {"ana": None, "bob": None, "all": "the plan of all"}


def test_a_put_without_a_channel_is_of_the_callers_folder(shared: DaemonUnderTest) -> None:
    with Client(shared.socket_path) as client:
        client.call("document_put", {"space": ["here"], "key": "k", "value": "x"})
        found = client.call("document_get", {"space": ["here"], "key": "k"})["document"]
    assert found["channel"] == channel_of_folder(Path.cwd())


@pytest.mark.nightly
def test_what_was_deleted_is_told_on_no_connection_from_its_acknowledgement_on(daemon: DaemonUnderTest) -> None:
    assert {kind: dict(methods) for kind, methods in stale(daemon, rounds=1).items()} == {kind: {} for kind in KINDS}
