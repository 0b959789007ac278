"""Two users of one memory, over every method of the table: none gives or changes what is the other's."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dreamd.daemon.methods.table import METHODS

from tests.bench.daemon_under_test import DaemonUnderTest, Refused
from tests.system.commands import typed
from tests.system.test_mcp import Relay
from tests.system.waiting import until

SECRET = "zinnober"
"""A word of Ana's, in all that she keeps and asks."""

Call = dict[str, Any]

OWNERS = {
    **dict.fromkeys(("hello", "ping"), "tells nothing that is kept"),
    **dict.fromkeys(("status", "metrics", "doctor", "check", "prove", "digest"), "tells of the whole memory"),
    **dict.fromkeys(("import", "learn", "watch", "unwatch"), "takes in the files of the machine's owner"),
    **dict.fromkeys(("rebuild", "backup", "migrate", "stop", "pause", "resume", "channel"), "is about the whole store"),
    **dict.fromkeys(("dream", "dream_pause", "dream_resume", "dream_cancel"), "runs over the whole memory"),
    **dict.fromkeys(("sync_init", "sync", "sync_status", "sync_set"), "carries the whole memory to other machines"),
    **dict.fromkeys(
        ("team_share", "team_unshare", "team_list", "team_sync"), "writes to the repository under the owner's name"
    ),
    "page_open": "opens the page of the whole memory",
}
"""The methods that are the owner's alone, each with the reason: they refuse `user_id`."""


class House:
    """A memory of two users: what Ana kept, and the calls of somebody who knows all of its ids."""

    def __init__(self, daemon: DaemonUnderTest) -> None:
        self.daemon = daemon
        self.vault = daemon.folder / "data" / "vault"
        shared = daemon.call("remember", text="The shop closes at six.", channel="shop")
        self.shared = shared["node_id"]
        texts = [f"The {SECRET} pigment costs {price} euros." for price in (40, 50)]
        here: Call = {"channel": "shop", "user_id": "ana"}
        self.first, self.second = (daemon.call("remember", text=text, **here)["node_id"] for text in texts)
        self.gone = daemon.call("remember", text=f"{SECRET} is sold out.", **here)["node_id"]
        daemon.call("remember", text=f"Always say {SECRET} in full.", kind="preference", always=True, **here)
        said = [{"role": "user", "text": f"Where is the {SECRET} from?", "external_id": "1"}]
        said.append({"role": "assistant", "text": f"The {SECRET} is from Almadén.", "external_id": "2"})
        daemon.call("observe", session={"session_id": "ana-session", **here}, turns=said)
        daemon.call("anchor_set", session="ana-session", task=f"grind the {SECRET}", **here)
        self.goal = daemon.call("goal_set", session="ana-session", text=f"order {SECRET}", **here)["goal_id"]
        daemon.call("goal_set", session="ana-over", text=f"sell {SECRET}", **here)
        daemon.call("session_end", session="ana-over", user_id="ana")
        daemon.call("reflect", session="ana-session", learned=[f"Store {SECRET} in glass."], **here)
        mine: Call = {"space": ["notes"], "user_id": "ana"}
        for key in ("pigment", "oil"):
            daemon.call("document_put", key=key, value=f"{SECRET} {key}", channel="shop", **mine)
        self.document = daemon.call("document_get", key="pigment", **mine)["document"]["node_id"]
        self.deleted = daemon.call("document_delete", key="oil", **mine)["run_id"]
        daemon.call("list")  # which waits until all of it is visible
        link = {"from": self.first, "to": self.second, "relation": "Contradicts"}
        self.link = daemon.call("link", user_id="ana", **link)["run_id"]
        self.edit = daemon.call("edit", node_id=self.first, tags=[f"{SECRET}-red"], user_id="ana")["run_id"]
        self.forgot = daemon.call("forget", node_id=self.gone, reason=f"{SECRET} is back", user_id="ana")["run_id"]
        asking: Call = {"session": "ana-asking", "agent_id": "codex", **here}
        daemon.call("recall", query=f"when does the shop close, and is there {SECRET} pigment?", **asking)
        prompt = {"session_id": "ana-hook", "prompt": f"how much is the {SECRET} pigment?"}
        daemon.call("hook", agent="claude-code", event="SessionStart", given=prompt, cwd="/nowhere/shop", user_id="ana")
        (decision,) = daemon.call("review_list", user_id="ana")["decisions"]
        self.decision = decision["decision_id"]

    def calls(self, user: str, folder: Path) -> Iterator[tuple[str, Call]]:
        """Yield each method that takes a user with calls for everything of Ana's."""
        shop, turn, of_user = {"channel": "shop"}, "ana-session#1", {"user_id": user}
        asked = {"query": f"{SECRET} pigment price", **shop}
        nodes = (self.first, self.second, self.gone, turn, "ana-session", self.document)
        runs = (self.link, self.edit, self.forgot, self.deleted)
        places: list[Call] = [{"space": ["notes"]}, {"space": ["@ana", "notes"]}]
        documents = [{**place, "key": key} for place in places for key in ("pigment", "oil")]
        given = {"session_id": "ana-session", "prompt": f"how much is the {SECRET} pigment?"}
        file = str(folder / f"{user}.")
        of_session = {"session": "ana-session", **shop}
        calls: dict[str, list[Call]] = {
            "recall": [
                *(asked, {**asked, "session": "ana-session"}, {**asked, "explain": True, "why_not": self.first}),
                *({"like": self.first}, {**asked, "channel": "shop/@ana"}, {**asked, "include_archived": True}),
                {**asked, "filter": {"field": "channel", "eq": "shop/@ana"}},
            ],
            "context": [asked, {**asked, "channel": "shop/@ana"}, {"query": "what is the price of the pigment?"}],
            "recent": [shop, {**shop, "session": "ana-session"}, {"channel": "shop/@ana"}],
            "about": [{"name": "pigment", **shop}, {"name": "pigment", "channel": "shop/@ana"}],
            "entities": [shop, {}, {"channel": "*"}],
            "remember": [{"text": "The pigment costs 40 euros.", **shop, "session": "ana-session"}],
            "list": [
                {},
                shop,
                {"texts": True},
                {"tags": True},
                {**shop, "tags": True},
                {"channel": "shop/@ana"},
                {"kind": "turn"},
                {"channel": "*"},
            ],
            "link": [{"from": self.first, "to": self.shared}, {"from": self.shared, "to": self.second}],
            "entity_merge": [{"node_id": self.first, "other": self.second}],
            "entity_split": [{"node_id": self.first, "names": [SECRET]}],
            "entity_deny": [{"node_id": self.first, "relation": f"{SECRET} owns it"}],
            "anchor_set": [{**of_session, "next_step": "stop"}],
            "anchor_get": [of_session, shop, {"channel": "shop/@ana"}],
            "anchor_recover": [of_session, shop, {**shop, "agent_id": "codex"}],
            "reflect": [{**of_session, "outcome": "It is done."}],
            "goal_set": [{**of_session, "goal_id": self.goal, "state": "abandoned"}, {**shop, "goal_id": self.goal}],
            "goals": [of_session, shop],
            "find_strategy": [asked],
            "select_tools": [{**asked, "tools": ["grind"]}],
            "tools": [shop, {}],
            "session_end": [{"session": "ana-session"}],
            "hook": [
                {"agent": "claude-code", "event": event, "given": given, "cwd": "/nowhere/shop"}
                for event in ("SessionStart", "UserPromptSubmit", "Stop", "SessionEnd")
            ],
            "brief": [shop, {"cwd": "/nowhere/shop"}, {"channel": "shop/@ana"}],
            "told": [{}, {"session": "ana-session"}, {"session": "ana-hook"}, {"channel": "*"}],
            "runs": [{"limit": 1000, "all": True}, {"kind": "forget"}],
            "run": [{"run_id": run_id} for run_id in runs],
            "undo": [{"run_id": run_id} for run_id in runs],
            "redo": [{"run_id": run_id} for run_id in runs],
            "purge": [
                *({"nodes": [node]} for node in nodes),
                *({"channel": "shop/@ana"}, {"matching": SECRET}, {"nodes": [self.shared]}, {"probes": True}),
                {"channel": "shop", "dry_run": True},
            ],
            "document_get": documents,
            "document_list": [{}, *places, {"space": ["@ana"], "deep": True}],
            "document_search": [{**place, "query": f"{SECRET} pigment"} for place in ({}, *places)],
            "document_rename": [{**one, "to": "mine"} for one in documents],
            "document_delete": [*documents, *places],
            "document_put": [
                *({**one, "value": "It is empty.", **shop} for one in documents),
                {**documents[0], "value": "It is empty.", "channel": "shop/@ana"},
            ],
            "decay_preview": [{"days": 3650}],
            "review_list": [{}],
            "review_decide": [
                {"decision": self.decision, "keep": "newer"},
                *({"decision": node, "keep": keep} for node in nodes for keep in ("accept", "reject", "older")),
            ],
            "export": [
                *({"path": f"{file}{form}", "form": form, "sessions": True} for form in ("okf", "jsonl")),
                {"path": f"{file}md", "form": "handover", "channel": "shop"},
                {"path": f"{file}x", "form": "jsonl", "channel": "shop/@ana"},
            ],
        }
        for method in ("show", "history", "restore", "forget"):
            calls[method] = [{"node_id": node} for node in nodes]
        calls["history"].append({"node_id": self.shared})
        calls["feedback"] = [{"node_id": node, "verdict": "not_useful"} for node in nodes]
        calls["tag"] = [{"node_id": node, "add": ["seen"]} for node in nodes]
        calls["edit"] = [{"node_id": node, "text": "It is free."} for node in nodes]
        for method, each in calls.items():
            yield from ((method, {**params, **of_user}) for params in each)

    def files(self) -> dict[str, bytes]:
        """Return the files of the vault with Ana's word."""
        found = {str(path): path.read_bytes() for path in self.vault.rglob("*.md")}
        return {path: content for path, content in found.items() if SECRET.encode() in content.lower()}

    def work(self) -> Any:
        """Return what Ana's session is at work on."""
        goals = self.daemon.call("goals", session="ana-session", channel="shop", user_id="ana")
        return goals, self.daemon.call("anchor_get", session="ana-session", user_id="ana")

    def answers(self, user: str, folder: Path, only: frozenset[str] | None = None) -> Iterator[tuple[str, Call, str]]:
        """Yield all calls, or those of some methods, with their answers, or errors, as text."""
        for method, params in self.calls(user, folder):
            if only is not None and method not in only:
                continue
            try:
                answer = json.dumps(self.daemon.call(method, **params))
            except Refused as refused:
                answer = f"{type(refused).__name__}: {refused}"
            yield method, params, answer


def tells(path: Path) -> bool:
    """Return True if an exported file holds Ana's word."""
    data = path.read_bytes()
    return SECRET.encode() in (gzip.decompress(data) if path.suffix == ".okf" else data).lower()


@pytest.fixture
def house(daemon: DaemonUnderTest) -> House:
    return House(daemon)


def test_every_method_is_a_user_s_or_the_owner_s_alone(house: House, tmp_path: Path) -> None:
    of_users = {method.name for method in METHODS if "user_id" in method.params.model_fields} | {"observe"}
    assert of_users == {method for method, _ in house.calls("bob", tmp_path)} | {"observe"}
    assert of_users | set(OWNERS) == {method.name for method in METHODS}
    assert not of_users & set(OWNERS)
    for method in OWNERS:
        with pytest.raises(Refused):
            house.daemon.call(method, user_id="bob")


def test_no_method_gives_or_changes_what_is_another_user_s(house: House, tmp_path: Path) -> None:
    files, work = house.files(), house.work()
    assert len(files) >= 7
    said = [{"role": "user", "text": "It is mine.", "external_id": "3"}]
    session = {"session_id": "ana-session", "channel": "shop", "user_id": "bob"}
    with pytest.raises(Refused):
        house.daemon.call("observe", session=session, turns=said)
    given = [(method, params) for method, params, answer in house.answers("bob", tmp_path) if SECRET in answer.lower()]
    assert not given
    assert not [path for path in tmp_path.glob("bob.*") if tells(path)]
    house.daemon.call("list")
    assert house.files() == files
    assert house.work() == work


def test_the_same_calls_give_it_to_whose_it_is(house: House, tmp_path: Path) -> None:
    given = {method for method, _, answer in house.answers("ana", tmp_path, READING) if SECRET in answer.lower()}
    assert given == READING - {"export"}
    assert {path.suffix for path in tmp_path.glob("ana.*") if tells(path)} == {".okf", ".jsonl", ".md", ".x"}


READING = frozenset(
    (
        *("recall", "context", "recent", "list", "show", "history", "goals", "anchor_get", "anchor_recover", "brief"),
        *("told", "runs", "run", "review_list", "export"),
        *("document_get", "document_list"),
    )
)


def test_the_environment_names_the_user_of_commands_hooks_and_agents(house: House) -> None:
    environ = {"DREAMD_USER": "bob"}
    relay = Relay(house.daemon, **environ)
    try:
        assert SECRET not in relay.call(1, "list")
        relay.call(2, "remember", text="The linseed oil is mine.", channel="shop")
    finally:
        relay.close()
    said = json.dumps({"session_id": "bob-1", "prompt": "The walnut oil is mine.", "last_assistant_message": "Noted."})
    for event in ("UserPromptSubmit", "Stop"):
        command = [sys.executable, "-P", "-m", "dreamd.daemon.cli.entry", "hook", "claude-code", event]
        subprocess.run(command, env=house.daemon.environ | environ, cwd=house.daemon.folder, input=said.encode())
    until(lambda: "walnut" in typed(house.daemon, "recall", "walnut oil", "--user", "bob").stdout)
    assert "linseed" in typed(house.daemon, "list", "--channel", "shop", **environ).stdout
    of_ana = typed(house.daemon, "list", "--user", "ana", "--channel", "*").stdout
    assert SECRET in of_ana
    assert "linseed" not in of_ana
    assert "walnut" not in typed(house.daemon, "recall", "walnut oil", "--user", "ana").stdout


def test_what_all_share_is_neither_decided_nor_undone_by_a_user(house: House) -> None:
    call = house.daemon.call
    other = call("remember", text="The shop never closes at six.", channel="shop")["node_id"]
    run = call("link", **{"from": other, "to": house.shared, "relation": "Contradicts"})["run_id"]
    edited = call("edit", node_id=other, tags=["hours"])["run_id"]
    (decision,) = [one for one in call("review_list")["decisions"] if one["older"]["node_id"] == house.shared]
    of_ana: Call = {"user_id": "ana"}
    assert decision["decision_id"] not in json.dumps(call("review_list", **of_ana))
    refused: list[tuple[str, Call]] = [
        ("review_decide", {"decision": decision["decision_id"], "keep": "newer"}),
        *(("undo", {"run_id": run_id}) for run_id in (run, edited)),
        *(("restore", {"node_id": other}), ("purge", {"nodes": [other]}), ("purge", {"nodes": [other[:8]]})),
    ]
    for method, params in refused:
        with pytest.raises(Refused):
            call(method, **params, **of_ana)
    assert call("run", run_id=edited, **of_ana)["run"]["state"] == "applied"
    assert call("undo", run_id=house.edit, **of_ana)["restored"] == 1
    assert call("undo", run_id=edited)["restored"] == 1
    assert call("review_decide", decision=other[:8], keep="newer")["choice"] == "newer"
