"""Where a question looks that names no channel, and what it is told of where it did not look; on the real store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from dreamd.ipc.channels import full_name, nearest_names, not_looked_in, nothing_there
from dreamd.ipc.client import Client, DaemonError
from dreamd.ipc.protocol import NOT_FOUND
from dreamd.store.channel import channel_of_folder
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.model import StoreReadOnly
from dreamd.store.settings import StoreSettings

from tests.ipc.conftest import Serve
from tests.ipc.methods import store_methods

NOW = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)
BILLING = "The billing service runs on port 8443."


@pytest.fixture
def opened_store(tmp_path: Path) -> Iterator[MemoryStore]:
    own = tmp_path / "store"
    paths = StorePaths(own / "vault", own / "ledger.db", own / "index.db", own / "embeddings.db", own / "runs")
    own.mkdir()
    with closing(MemoryStore.open(paths, StoreSettings(), StubEmbedder(), lambda: NOW)) as store:
        yield store


@pytest.fixture
def client(serve: Serve, opened_store: MemoryStore) -> Iterator[Client]:
    serving = serve(store_methods(opened_store))
    with serving.client() as client:
        yield client
    serving.stop()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Give a folder deep in a git repository."""
    root = tmp_path / "billing"
    (root / ".git").mkdir(parents=True)
    (root / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    folder = root / "src" / "api"
    folder.mkdir(parents=True)
    return folder


def observe(client: Client, folder: Path) -> None:
    turns = [{"role": "user", "text": BILLING, "external_id": "t1"}]
    client.call("observe", {"session": {"session_id": "s1", "cwd": str(folder)}, "turns": turns})


def test_what_is_observed_in_a_project_is_found_from_any_folder_of_it(client: Client, project: Path) -> None:
    observe(client, project)
    for folder in (project, project.parent, project.parents[1]):
        answer = client.call("recall", {"query": "billing port", "cwd": str(folder)})
        assert [hit["text"] for hit in answer["hits"]] == [BILLING]
        assert answer["channel"] == channel_of_folder(project)
        assert BILLING in client.call("context", {"query": "billing port", "cwd": str(folder)})["text"]


def test_a_statement_is_kept_for_the_repository_it_is_said_in_else_for_all(
    client: Client, project: Path, tmp_path: Path
) -> None:
    def kept(text: str, **where: str) -> str:
        return str(client.call("remember", {"text": text, **where})["channel"])

    assert kept("Billing is slow.", cwd=str(project)) == channel_of_folder(project)
    assert kept("Bread is baked on Saturdays.", cwd=str(tmp_path)) == "_global"
    assert kept("Tea is at five.", cwd=str(tmp_path / "gone")) == "_global"
    assert kept("Tabs are four wide.", cwd=str(project), channel="_global") == "_global"


def test_an_acknowledgement_says_what_is_known_of_a_statement(client: Client) -> None:
    key = "sk-ant-api03-q7Zk3vQx9LmT2bRw8NcY5dHs1JpF4gKa6UeV"
    text = f"The key is {key} and the port is 8080"
    first = client.call("remember", {"text": text, "channel": "shop"})
    assert {name: first[name] for name in ("channel", "novelty", "redacted")} == {
        "channel": "shop",
        "novelty": "new",
        "redacted": 1,
    }
    again = client.call("remember", {"text": text, "channel": "shop"})
    assert (again["node_id"], again["novelty"]) == (first["node_id"], "known")


def test_the_client_asks_and_keeps_in_the_folder_that_it_runs_in(
    client: Client, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    turns = [{"role": "user", "text": BILLING, "external_id": "t1"}]
    client.call("observe", {"session": {"session_id": "s1"}, "turns": turns})
    assert client.call("recall", {"query": "billing port"})["channel"] == channel_of_folder(project)
    assert client.call("recall", {"query": "billing port"})["hits"]


def test_an_abstention_names_the_channels_that_were_not_looked_in(client: Client, project: Path) -> None:
    observe(client, project)
    client.call("remember", {"text": "The cat is called Minka.", "channel": "home"})
    client.call("remember", {"text": "Bread is baked on Saturdays.", "channel": "kitchen"})
    for method in ("recall", "context"):
        answer = client.call(method, {"query": "zxqv wvut", "channel": "home"})
        assert answer["abstained"]
        [note] = answer["notes"]
        assert note.endswith(' and 1 other channel were not looked in; channel "*" looks everywhere')
        everywhere = client.call(method, {"query": "zxqv wvut", "channel": "*"})
        assert (everywhere["abstained"], everywhere["notes"]) == (True, [])


def test_a_folder_without_memories_is_offered_what_was_found_elsewhere(
    client: Client, project: Path, tmp_path: Path
) -> None:
    observe(client, project)
    here = {"query": "billing port", "cwd": str(tmp_path)}
    answer = client.call("recall", here)
    assert (answer["hits"], answer["abstained"]) == ([], True)
    [place] = answer["elsewhere"]
    assert place["channel"] == channel_of_folder(project)
    assert [hit["text"] for hit in place["hits"]] == [BILLING]


def test_an_envelope_never_holds_another_project_s_memories(client: Client, project: Path, tmp_path: Path) -> None:
    observe(client, project)
    envelope = client.call("context", {"query": "billing port", "cwd": str(tmp_path)})
    assert (envelope["text"], envelope["slots"], envelope["abstained"]) == ("", [], True)
    assert f"1 in `{channel_of_folder(project)}`" in envelope["notes"][-1]
    assert BILLING not in str(envelope)


def test_other_channels_are_searched_only_for_an_unnamed_empty_one(
    client: Client, project: Path, tmp_path: Path
) -> None:
    observe(client, project)
    client.call("remember", {"text": "Tea is at five.", "channel": "home"})
    assert client.call("recall", {"query": "billing port", "channel": "home"})["elsewhere"] == []
    client.call("observe", {"session": {"session_id": "s2", "cwd": str(tmp_path)}, "turns": [TURN]})
    answer = client.call("recall", {"query": "billing port", "cwd": str(tmp_path)})
    assert answer["elsewhere"] == []
    assert len(answer["notes"]) == 1 or answer["hits"]


TURN = {"role": "user", "text": "Zebras graze.", "external_id": "t2"}


def test_the_channel_that_holds_most_is_named_first() -> None:
    held = {"_global": 9, "a": 1, "b": 5, "c": 2}
    assert not_looked_in("a", held) == ['`b` and 1 other channel were not looked in; channel "*" looks everywhere']
    assert not_looked_in("x", held)[0].startswith("`b` and 2 other channels were")
    assert not_looked_in("b", {"b": 1, "a": 1}) == ['`a` was not looked in; channel "*" looks everywhere']
    assert not_looked_in("*", held) == []
    assert not_looked_in("b", {"b": 1, "_global": 1}) == []
    assert not_looked_in("b/@ana", {"b/@ana": 1, "b": 1, "_global/@ana": 1, "_global": 1}) == []


def test_a_channel_that_holds_nothing_may_be_a_name_mistyped() -> None:
    assert nothing_there("kitchen", {"kitchen": 1}) == []
    note = "nothing is kept in `deig` yet; did you mean `deig-41b172`?"
    assert nothing_there("deig", {"dough": 9, "deig-41b172": 1}) == [note]
    assert nothing_there("kitchn", {"kitchen": 1}) == ["nothing is kept in `kitchn` yet; did you mean `kitchen`?"]
    assert nothing_there("new", {"kitchen": 1}) == ["nothing is kept in `new` yet"]


def test_a_short_name_means_the_only_channel_that_it_can_mean() -> None:
    held = ["shop-1a2b3c", "shopping", "kitchen-0f0f0f", "tea", "twin-000001", "twin-000002"]
    assert full_name("Shop", held) == full_name("shop-1", held) == full_name("shop", held) == "shop-1a2b3c"
    assert full_name("kit", held) == "kitchen-0f0f0f"
    for name in ("tea", "sho", "twin", "new", "*", "_global"):  # there is one, several, none, or it is no project
        assert full_name(name, held) == name
    assert full_name("kit", held, beginning=False) == "kit"
    assert full_name("kitchen", held, beginning=False) == "kitchen-0f0f0f"
    assert nearest_names("twin", held) == ["twin-000001", "twin-000002"]
    assert nearest_names("kitchn", held) == ["kitchen-0f0f0f"]


def test_a_project_is_named_without_its_hash_wherever_a_channel_is_taken(client: Client, project: Path) -> None:
    observe(client, project)
    own = channel_of_folder(project)
    for method in ("recall", "context"):
        assert client.call(method, {"query": "billing port", "channel": "billing"})["channel"] == own
    for test in ({"eq": "bill"}, {"in": ["billing"]}):
        filtered = {"must": [{"field": "channel", **test}]}
        assert client.call("recall", {"query": "billing port", "channel": "*", "filter": filtered})["hits"]
    assert client.call("list", {"channel": "billing"})["memories"]
    assert client.call("remember", {"text": "Billing is slow.", "channel": "billing"})["channel"] == own
    assert client.call("remember", {"text": "Bills are paid.", "channel": "bill"})["channel"] == "bill"


READS: dict[str, dict[str, Any]] = {
    "recall": {"query": "tea"}, "context": {"query": "tea"},
    "recent": {}, "list": {}, "find_strategy": {"query": "tea"},
    "select_tools": {"query": "tea", "tools": ["kettle"]}, "tools": {},
}  # fmt: skip


@pytest.mark.parametrize("method", READS)
def test_a_channel_that_does_not_exist_is_an_error_with_the_nearest_names(
    client: Client, project: Path, method: str
) -> None:
    client.call(method, {**READS[method], "channel": "kitchn"})  # a memory without any channel is new
    client.call("remember", {"text": "Tea is at five.", "channel": "kitchen"})
    with pytest.raises(DaemonError, match="there is no one channel 'kitchn'") as error:
        client.call(method, {**READS[method], "channel": "kitchn"})
    assert (error.value.code, error.value.hint) == (NOT_FOUND, "The nearest: kitchen.")
    client.call(method, {**READS[method], "channel": "kit"})
    own = channel_of_folder(project)
    client.call(method, {**READS[method], "channel": own, "cwd": str(project)})  # that of the folder always exists


def test_a_new_name_makes_a_new_channel(client: Client) -> None:
    client.call("remember", {"text": "Tea is at five.", "channel": "kitchen"})
    assert client.call("remember", {"text": "Bread is white.", "channel": "kitchn"})["channel"] == "kitchn"


def test_a_list_is_of_the_channels_that_a_question_looks_in(client: Client, project: Path) -> None:
    observe(client, project)
    client.call("remember", {"text": "Tea is at five.", "channel": "kitchen"})
    client.call("remember", {"text": "Bread is white.", "channel": "_global"})

    def listed(**where: str) -> set[str]:
        return {memory["channel"] for memory in client.call("list", where)["memories"]}

    assert listed(cwd=str(project)) == {channel_of_folder(project), "_global"}
    assert listed(channel="*") == listed() == {channel_of_folder(project), "kitchen", "_global"}
    assert listed(channel="kitchen") == {"kitchen"}


def test_users_of_one_memory_never_see_what_is_another_s(client: Client, project: Path) -> None:
    here = {"cwd": str(project)}
    client.call("remember", {"text": "The billing port is 7000 for Ana.", "user_id": "ana", **here})
    client.call("remember", {"text": "The billing port is 7001 for Bob.", "user_id": "bob", **here})
    turns = [{"role": "user", "text": "The billing port of my laptop is 7002.", "external_id": "t1"}]
    client.call("observe", {"session": {"session_id": "s9", "user_id": "bob", **here}, "turns": turns})
    client.call("remember", {"text": "The billing port is 7003 for everybody.", **here})

    def found(**who: str) -> set[str]:
        answer = client.call("recall", {"query": "billing port", **who, **here})
        envelope = client.call("context", {"query": "billing port", **who, **here})
        seen = f"{answer['hits']} {answer['elsewhere']} {envelope['text']}"
        assert "bob" not in str(answer["notes"] + envelope["notes"]) or who.get("user_id") != "ana"
        return {port for port in ("7000", "7001", "7002", "7003") if port in seen}

    assert found(user_id="ana") == {"7000", "7003"}
    assert found(user_id="bob") == {"7001", "7002", "7003"}
    assert found(user_id="eve") == {"7003"}
    assert found() == {"7003"}
    assert client.call("recent", {"user_id": "ana", **here})["sessions"] == []
    bobs = client.call("list", {"channel": f"{channel_of_folder(project)}/@bob", "level": "L1"})["memories"][0][
        "node_id"
    ]
    for params in (
        {"query": "port", "channel": "*"},
        {"query": "port", "channel": f"{channel_of_folder(project)}/@bob"},
        {"like": bobs},
    ):
        with pytest.raises(DaemonError):
            client.call("recall", {"user_id": "ana", **params})


def test_a_user_is_one_in_whatever_case(client: Client) -> None:
    note = client.call("remember", {"text": BILLING, "channel": "b", "user_id": "Ana"})
    assert note["channel"] == "b/@ana"
    assert client.call("remember", {"text": "Tea is at five.", "channel": "b/@ANA"})["channel"] == "b/@ana"
    turns = [{"role": "user", "text": "The billing port is 7000.", "external_id": "t1"}]
    client.call("observe", {"session": {"session_id": "s1", "channel": "b", "user_id": "ANA"}, "turns": turns})
    for user in ("ana", "Ana"):
        of_user = {"channel": "b", "user_id": user}
        found = client.call("recall", {"query": "billing port", **of_user})["hits"]
        assert {hit["node_id"] for hit in found} == {note["node_id"], "s1#1"}
        where = {"field": "user", "eq": user}
        asked = client.call("recall", {"query": "billing port", "filter": where, **of_user})
        assert [hit["node_id"] for hit in asked["hits"]] == ["s1#1"]


def test_what_all_share_is_the_owners_to_change(client: Client) -> None:
    shared = client.call("remember", {"text": BILLING, "channel": "b"})["node_id"]
    page = client.call("remember", {"text": "Billing moves in May.", "channel": "b"})["node_id"]
    own = client.call("remember", {"text": "My billing port is 7000.", "channel": "b", "user_id": "ana"})["node_id"]
    node, linked = {"node_id": shared}, {"to": shared, "relation": "Supersedes"}
    calls = [("forget", node), ("edit", {**node, "text": "It is free."}), ("tag", {**node, "add": ["x"]})]
    calls += [("link", {"from": shared, "to": own}), ("link", {"from": own, **linked})]
    calls += [("feedback", {**node, "verdict": "rejected"})]
    for method, params in calls:
        with pytest.raises(DaemonError, match=f"{shared} is what all users share") as refused:
            client.call(method, {**params, "user_id": "ana"})
        assert "owner" in refused.value.hint
    assert client.call("feedback", {"node_id": own, "verdict": "useful", "user_id": "ana"})
    assert client.call("feedback", {**node, "verdict": "useful"})
    assert client.call("forget", {"node_id": own, "user_id": "ana"})["run_id"]
    assert client.call("link", {"from": page, **linked})["run_id"]
    assert client.call("forget", node)["run_id"]


def test_the_same_words_of_two_users_are_two_memories(client: Client) -> None:
    kept = [client.call("remember", {"text": BILLING, "channel": "b", "user_id": user}) for user in ("ana", "bob")]
    assert [one["novelty"] for one in kept] == ["new", "new"]
    assert kept[0]["node_id"] != kept[1]["node_id"]
    for one, user in zip(kept, ("ana", "bob"), strict=True):
        (hit,) = client.call("recall", {"query": "billing port", "channel": "b", "user_id": user})["hits"]
        assert (hit["node_id"], hit["channel"]) == (one["node_id"], f"b/@{user}")


def test_a_part_of_a_channel_reads_it_and_is_written_apart(client: Client, project: Path) -> None:
    observe(client, project)
    assert client.call("recall", {"query": "billing port", "cwd": str(project)})["hits"]
    client.call("remember", {"text": "In the spike billing runs on port 9000.", "channel": "billing/spike"})
    within = client.call("recall", {"query": "billing port", "channel": "billing/spike"})
    assert {hit["channel"] for hit in within["hits"]} == {
        channel_of_folder(project),
        f"{channel_of_folder(project)}/spike",
    }
    outside = client.call("recall", {"query": "billing port", "cwd": str(project)})
    assert {hit["channel"] for hit in outside["hits"]} == {channel_of_folder(project)}


def test_a_channel_that_is_read_alone_has_nothing_of_all_projects(client: Client) -> None:
    client.call("remember", {"text": BILLING, "channel": "_global"})
    client.call("remember", {"text": "Billing of the audit is on port 9001.", "channel": "=audit"})
    answer = client.call("recall", {"query": "billing port", "channel": "=audit"})
    assert {hit["channel"] for hit in answer["hits"]} == {"=audit"}


# ---- of a session alone


def test_what_holds_in_a_session_is_read_there_alone(client: Client, project: Path) -> None:
    observe(client, project)
    here = {"cwd": str(project)}
    asked = {"query": "Which port does the spike use?", **here}
    kept = client.call("remember", {"text": "The spike uses port 9999.", "scope": "session", "session": "s9", **here})
    assert kept["channel"] == f"{channel_of_folder(project)}/~s9"
    client.call(
        "remember",
        {"text": "The spike is always called a spike.", "scope": "session", "session": "s9", "always": True, **here},
    )

    def told(session: str | None, **also: Any) -> str:
        return str(client.call("recall", {**asked, **({"session": session} if session else {}), **also})["hits"])

    def handed(session: str) -> str:
        return str(client.call("context", {**asked, "session": session})["text"])

    assert "9999" in told("s9")
    assert "9999" in handed("s9")
    assert "called a spike" in handed("s9")
    nowhere = client.call("recall", {"query": "zxqv", "channel": "_global"})
    assert "~s9" not in str(nowhere)
    for other in ("s8", None):
        assert "9999" not in told(other)
        assert "9999" not in told(other, include_archived=True)
    assert "spike" not in handed("s8")
    assert not client.call("recall", {"query": "spike port", "cwd": "/nowhere", "session": "s9"})["hits"]
    assert client.call("show", {"node_id": kept["node_id"]})["channel"] == kept["channel"]


def test_a_scope_names_one_place(client: Client, project: Path) -> None:
    kept = client.call("remember", {"text": "Tea is for all.", "scope": "global", "cwd": str(project)})
    assert kept["channel"] == "_global"
    for wrong in ({"scope": "global", "channel": "shop"}, {"scope": "session"}, {"scope": "session", "agent_id": "x"}):
        with pytest.raises(DaemonError):
            client.call("remember", {"text": "It has no place.", "cwd": str(project), **wrong})


def test_what_is_off_in_a_channel_is_off_in_its_parts(opened_store: MemoryStore) -> None:
    opened_store.set_channel("shop", False)
    for part in ("shop/@ana", "shop/~s1", "shop/spike"):
        with pytest.raises(StoreReadOnly, match="off in shop"):
            opened_store.remember("It is not learned.", channel=part)


# ---- clones of one project


REMOTE = "0" * 32


def clones(client: Client, store: MemoryStore) -> tuple[str, str]:
    """Keep a memory in the channels of two clones of a project; the first is this machine's own."""
    own, other = "shop-1a2b3c", "shop-4d5e6f"
    for channel, text in ((own, BILLING), (other, "Bread is baked on Saturdays.")):
        client.call("remember", {"text": text, "channel": channel})
        store.replica.link(REMOTE, channel)
    client.call("list")  # which waits until both are found
    return own, other


def test_the_name_of_a_project_of_two_clones_is_this_machines_channel(
    client: Client, opened_store: MemoryStore
) -> None:
    own, other = clones(client, opened_store)
    client.call("remember", {"text": "The shop is in Linz.", "channel": "shop-9a8b7c"})
    with pytest.raises(DaemonError, match="there is no one channel 'shop'"):  # another project has the name too
        client.call("recall", {"query": "billing port", "channel": "shop"})
    client.call("forget", {"node_id": client.call("list", {"channel": "shop-9a8b7c"})["memories"][0]["node_id"]})
    client.call("list")
    for query in ("billing port", "when is bread baked?"):
        answer = client.call("recall", {"query": query, "channel": "shop"})
        assert (answer["channel"], len(answer["hits"])) == (own, 1), query
        assert client.call("context", {"query": query, "channel": "Shop"})["slots"]
    listed = client.call("list", {"channel": "shop"})["memories"]
    assert {memory["channel"] for memory in listed} == {own, other}
    where = {"field": "channel", "eq": "shop"}
    assert client.call("list", {"filter": where})["memories"] == listed
    assert client.call("remember", {"text": "Tea is at five.", "channel": "shop"})["channel"] == own
    assert client.call("remember", {"text": "Tea is at six.", "channel": "shop/spike"})["channel"] == f"{own}/spike"
    alone = client.call("list", {"filter": {**where, "eq": other}})["memories"]
    assert {memory["channel"] for memory in alone} == {other}


# ---- ids


def test_the_beginning_of_an_id_names_a_memory_if_it_is_of_one_alone(client: Client) -> None:
    node_id = client.call("remember", {"text": BILLING, "channel": "b"})["node_id"]
    for method in ("show", "history", "forget"):
        assert client.call(method, {"node_id": node_id[:6]})["node_id"] == node_id
    for too_short in (node_id[:5], "zzzzzz"):
        with pytest.raises(DaemonError, match="there is no"):
            client.call("show", {"node_id": too_short})
    for name, user in (("session-1", "ana"), ("session-2", "bob"), ("session-3", "bob")):
        session = {"session_id": name, "channel": "b", "user_id": user}
        turns = [{"role": "user", "text": f"It is {name}.", "external_id": "t1"}]
        client.call("observe", {"session": session, "turns": turns})
    with pytest.raises(DaemonError, match="3 ids begin with session") as refused:
        client.call("show", {"node_id": "session"})
    assert "session-1, session-2, session-3" in refused.value.hint
    assert client.call("show", {"node_id": "session#1", "user_id": "ana"})["text"] == "It is session-1."
    with pytest.raises(DaemonError, match="2 ids begin with session") as refused:
        client.call("recent", {"session": "session", "channel": "b", "user_id": "bob"})
    assert "session-1" not in refused.value.hint
