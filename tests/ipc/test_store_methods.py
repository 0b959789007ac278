"""The store's methods over the wire, against the real store with the stub model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from dreamd import __version__
from dreamd.ipc import question_methods
from dreamd.ipc.answers import IF_ANY
from dreamd.ipc.client import Client, DaemonError
from dreamd.ipc.params import RecallParams
from dreamd.ipc.protocol import BUSY, INVALID_PARAMS, NOT_FOUND, encode
from dreamd.ipc.question_methods import cut_to_bytes
from dreamd.store import okf
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.engine import database
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.model import UNSENT, Changeset, Evidence, Level
from dreamd.store.settings import StoreSettings
from hypothesis import given
from hypothesis import strategies as st

from tests import memories
from tests.ipc.conftest import Serve
from tests.ipc.methods import store_methods
from tests.store.changes.test_redo import created

NOW = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MemoryStore]:
    paths = StorePaths(
        vault=tmp_path / "vault",
        ledger=tmp_path / "ledger.db",
        index=tmp_path / "index.db",
        embeddings=tmp_path / "embeddings.db",
        runs=tmp_path / "runs",
    )
    ticks = iter(range(10_000))
    store = MemoryStore.open(paths, StoreSettings(), StubEmbedder(), lambda: NOW + timedelta(seconds=next(ticks)))
    yield store
    store.close()


@pytest.fixture
def client(serve: Serve, store: MemoryStore) -> Iterator[Client]:
    serving = serve(store_methods(store))
    with serving.client() as client:
        yield client
    serving.stop()


TURNS = [
    {
        "role": "user",
        "text": "We moved the billing service to PostgreSQL.",
        "at": "2026-11-20T10:00:00Z",
        "external_id": "D1:1",
    },
    {"role": "assistant", "text": "Noted: PostgreSQL for billing.", "external_id": "D1:2"},
]


def test_hello_and_ping(client: Client) -> None:
    assert client.call("hello", {"client": "test", "protocol": 1})["version"] == __version__
    assert client.server["protocol"] == 1
    assert client.call("ping") == {}


def test_what_was_remembered_is_recalled(client: Client) -> None:
    kept = client.call("remember", {"text": "The deploy key lives in 1Password.", "kind": "procedure", "tags": ["ops"]})
    answer = client.call("recall", {"query": "where is the deploy key?"})
    assert set(answer) == {"hits", "abstained", "notes", "channel", "confidence", "elsewhere", "exact", "incomplete"}
    [hit] = answer["hits"]
    assert set(hit) == {
        *(
            "node_id",
            "level",
            "kind",
            "title",
            "text",
            "score",
            "channel",
            "created_at",
            "evidence",
            "contradicts",
            "newer",
            "superseded_by",
            "stale_after",
            "confidence",
            "reply",
            "speaker",
            "certainty",
        ),
    }
    assert (hit["node_id"], hit["level"], hit["kind"]) == (kept["node_id"], "L1", "procedure")
    assert datetime.fromisoformat(hit["created_at"]).tzinfo is not None


def test_observed_turns_are_evidence_with_their_outside_ids(client: Client) -> None:
    session = {"session_id": "conv-26-s1", "channel": "conv-26", "started_at": "2026-11-20T10:00:00"}
    assert client.call("observe", {"session": session, "turns": TURNS})["added"] == 2
    assert client.call("observe", {"session": session, "turns": TURNS})["known"] == 2
    answer = client.call("recall", {"query": "billing PostgreSQL", "channel": "*", "levels": ["L0"]})
    assert {"node_id": "conv-26-s1#1", "external_id": "D1:1"} in [
        turn for hit in answer["hits"] for turn in hit["evidence"]
    ]
    envelope = client.call("context", {"query": "billing PostgreSQL", "budget_tokens": 200, "channel": "conv-26"})
    assert set(envelope) == {"text", "tokens", "slots", "abstained", "notes", "confidence", "channel", "incomplete"}
    assert 0 < envelope["tokens"] <= 200
    assert {"node_id", "text", "evidence"} <= set(envelope["slots"][0])


def test_a_turn_without_a_time_was_said_now(client: Client) -> None:
    client.call("observe", {"session": {"session_id": "s1"}, "turns": [{"role": "user", "text": "We chose the oak."}]})
    earlier = (NOW - timedelta(days=1)).isoformat()
    (hit,) = client.call("recall", {"query": "oak", "channel": "*"})["hits"]
    assert NOW <= datetime.fromisoformat(hit["created_at"]) < NOW + timedelta(minutes=1)
    assert client.call("recall", {"query": "oak", "channel": "*", "as_of": earlier})["hits"] == []
    since = {"must": [{"field": "time", "range": {"gte": earlier}}]}
    assert client.call("recall", {"query": "oak", "channel": "*", "filter": since})["hits"]


def test_an_instant_without_an_offset_is_utc() -> None:
    for given_, offset in (("2026-11-20T10:00:00", 0), ("2026-11-20T10:00:00Z", 0), ("2026-11-20T10:00:00+02:00", 2)):
        taken = RecallParams.model_validate({"query": "x", "as_of": given_}).as_of
        assert taken == datetime(2026, 11, 20, 10 - offset, tzinfo=UTC)


@pytest.mark.parametrize("bound", ["9999-12-31", "9999-12-31T23:59:59-12:00"])
def test_a_filter_to_the_end_of_the_calendar_lets_all_pass(client: Client, bound: str) -> None:
    client.call("remember", {"text": "The oak stands by the well."})
    ends = {"must": [{"field": "time", "range": {"lte": bound}}]}
    assert len(client.call("recall", {"query": "oak", "filter": ends})["hits"]) == 1
    assert client.call("recall", {"query": "oak", "filter": {"must_not": [ends]}})["hits"] == []


def test_an_empty_question_is_refused_with_a_hint(client: Client) -> None:
    for method in ("recall", "context"):
        with pytest.raises(DaemonError, match="empty") as caught:
            client.call(method, {"query": " \n"})
        assert caught.value.code == INVALID_PARAMS
        assert caught.value.hint


@pytest.fixture
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have statements look at the clock often."""
    monkeypatch.setattr(database, "STEPS", 20)


@pytest.mark.usefixtures("_often")
def test_a_search_that_takes_too_long_is_broken_off(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(50):
        client.call("remember", {"text": f"Fact number {number} is kept."})
    client.call("list")
    monkeypatch.setattr(question_methods, "ANSWER_S", 0.0)
    for method, params in (("recall", {"query": "fact"}), ("list", {})):
        with pytest.raises(DaemonError, match="too long") as caught:
            client.call(method, params)
        assert caught.value.code == BUSY


def test_nothing_found_is_an_answer(client: Client) -> None:
    assert client.call("recall", {"query": "anything"})["abstained"]
    assert client.call("context", {"query": "anything"})["slots"] == []
    assert client.call("list")["memories"] == []


def test_explain_tells_how_and_why_not(client: Client) -> None:
    first = client.call("remember", {"text": "Tabs are four spaces wide."})["node_id"]
    other = client.call("remember", {"text": "The cat is called Minka.", "channel": "home"})["node_id"]
    answer = client.call("recall", {"query": "tabs spaces", "explain": True, "why_not": first})
    assert answer["trace"]["timings_ms"]
    assert answer["why_not"] == {"node_id": first, "place": 1, "reason": "it is among the answers"}
    answer = client.call("recall", {"query": "tabs spaces", "levels": ["L2"], "why_not": first})
    assert "level is L1" in answer["why_not"]["reason"]
    client.call("remember", {"text": "Boots are worn here.", "channel": "work"})
    answer = client.call("recall", {"query": "tabs spaces", "channel": "work", "why_not": other})
    assert "channel is home" in answer["why_not"]["reason"]
    answer = client.call("recall", {"query": "Where do penguins sleep?", "why_not": first})
    assert answer["abstained"]
    assert "among the answers" not in answer["why_not"]["reason"]
    turn = {"role": "user", "text": "Tabs are three spaces wide.", "external_id": "t1"}
    client.call("observe", {"session": {"session_id": "my session"}, "turns": [turn]})
    asked = {"query": "tabs spaces", "session": "my session"}
    said = next(hit for hit in client.call("recall", asked | {"session": "s2"})["hits"] if "three" in hit["text"])
    answer = client.call("recall", asked | {"why_not": said["node_id"]})
    assert said["node_id"] not in {hit["node_id"] for hit in answer["hits"]}
    assert "the session that asks" in answer["why_not"]["reason"]
    assert "three" not in client.call("context", asked)["text"]
    with pytest.raises(DaemonError) as caught:
        client.call("recall", {"query": "tabs", "why_not": "nobody"})
    assert caught.value.code == NOT_FOUND


def test_a_turn_without_a_time_was_said_now_and_is_found_by_its_day(client: Client) -> None:
    turn = {"role": "user", "text": "The kiln broke again in the morning.", "external_id": "t1"}
    client.call("observe", {"session": {"session_id": "s1", "channel": "shop"}, "turns": [turn]})
    assert client.call("show", {"node_id": "s1#1"})["created_at"].startswith(f"{NOW:%Y-%m-%d}")
    for question, found in (("What happened today?", ["s1#1"]), ("What happened yesterday?", [])):
        hits = client.call("recall", {"query": question, "channel": "shop"})["hits"]
        assert [hit["node_id"] for hit in hits] == found


def test_why_not_tells_the_turn_of_a_fact_and_what_feedback_did(client: Client, store: MemoryStore) -> None:
    client.call("observe", {"session": {"session_id": "s1", "channel": "shop"}, "turns": TURNS[:1]})
    source = {"sources": [{"id": "t1", "resource": "/s1.md", "title": "s1#1"}], "searched": False}
    fact = memories.fact("The bakery bills by Postgres.", "shop", sources=("s1#1",), extra=source)
    path = store.paths.vault / fact.path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(okf.from_memory(fact))
    store.reconcile()
    asked = {"query": "PostgreSQL billing service", "channel": "shop", "why_not": fact.node_id, "explain": True}
    answer = client.call("recall", asked)
    assert answer["trace"]["candidates"][0]["nodes"] == ["s1#1"]
    told = {"node_id": fact.node_id, "place": 1, "reason": "s1#1, which it was drawn from, is among the answers"}
    assert answer["why_not"] == told
    client.call("feedback", {"node_id": fact.node_id, "verdict": "not-useful"})
    answer = client.call("recall", asked)
    assert answer["why_not"]["reason"] == f"{told['reason']}; feedback moved its score by -0.40"
    assert answer["trace"]["candidates"][0]["priors"] == {"trust": -0.4}
    answer = client.call("recall", {**asked, "session": "s1"})
    assert answer["why_not"]["reason"] == "it was said in the session that asks, which has it"


def test_an_abstention_says_what_was_left_out_and_where_nothing_is(client: Client) -> None:
    for channel in ("kitchen", "garden"):
        client.call("remember", {"text": "Tabs are four spaces wide.", "channel": channel})
    filtered = {"query": "tabs", "channel": "kitchen", "filter": {"field": "kind", "eq": "decision"}}
    for method in ("recall", "context"):
        assert client.call(method, filtered)["notes"] == ["only what the filter lets pass was looked at"]


def test_what_is_similar_to_a_memory_is_found_without_itself(client: Client, store: MemoryStore) -> None:
    texts = "The oven is heated at noon.", "The oven was heated with beech wood.", "Zebras graze at dusk."
    one, other, _ = (client.call("remember", {"text": text, "channel": "shop"})["node_id"] for text in texts)
    answer = client.call("recall", {"like": one})
    assert [hit["node_id"] for hit in answer["hits"]][:1] == [other]
    assert one not in [hit["node_id"] for hit in answer["hits"]]
    assert (answer["channel"], store.ledger.asked()) == ("shop", [])
    client.call(
        "observe", {"session": {"session_id": "s1", "channel": "shop"}, "turns": [{"role": "user", "text": texts[0]}]}
    )
    fact = replace(memories.fact(texts[0] + " So it is.", channel="shop"), sources=("s1#1",))
    store.apply(Changeset(run_id="r1", actions=(created(fact),)))
    assert "s1#1" not in [hit["node_id"] for hit in client.call("recall", {"like": fact.node_id})["hits"]]
    for wrong in ({"like": one, "query": "oven"}, {}):
        with pytest.raises(DaemonError):
            client.call("recall", wrong)


def test_the_history_of_a_node_is_answered(client: Client) -> None:
    node_id = client.call("remember", {"text": "The oven is heated at noon."})["node_id"]
    run_id = client.call("edit", {"node_id": node_id, "kind": "rule", "always": True})["run_id"]
    events = client.call("history", {"node_id": node_id})["events"]
    assert [(one["what"], one["who"], one["run_id"]) for one in events] == [
        ("kept", "", None),
        ("changed", "you", run_id),
    ]
    assert len(client.call("history", {"node_id": node_id, "limit": 1})["events"]) == 1


def test_a_misspelt_question_that_finds_nothing_is_asked_back(client: Client) -> None:
    client.call("remember", {"text": "The coffee at the corner costs 9.90."})
    for method in ("recall", "context"):
        answer = client.call(method, {"query": "cofee"})
        assert answer["abstained"]
        assert "did you mean coffee?" in answer["notes"]
        assert not client.call(method, {"query": "coffee"})["notes"]


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ({"field": "kind", "eq": "decision"}, "its kind is note"),
        ({"must_not": [{"field": "tags", "eq": "style"}]}, "its tags are layout, style"),
        ({"should": [{"field": "agent", "eq": "x"}, {"field": "user", "eq": "y"}]}, "it has no agent, it has no user"),
        ({"field": "time", "range": {"lt": "2001-01-01"}}, "its time is 20"),
    ],
)
def test_why_not_names_what_the_filter_left_out(client: Client, wanted: dict[str, Any], reason: str) -> None:
    node_id = client.call("remember", {"text": "Tabs are four spaces wide.", "tags": ["layout", "style"]})["node_id"]
    answer = client.call("recall", {"query": "tabs spaces", "filter": wanted, "why_not": node_id})
    assert answer["why_not"]["place"] is None
    assert answer["why_not"]["reason"].startswith(f"the filter leaves it out: {reason}")


def test_list_answers_in_pages_until_none_is_left(client: Client) -> None:
    for number in range(7):
        client.call("remember", {"text": f"Fact number {number} is kept."})
    pages, offset = [], 0
    while offset is not None:
        page = client.call("list", {"limit": 3, "offset": offset, "level": "L1"})
        pages.append([memory["title"] for memory in page["memories"]])
        offset = page["next"]
    assert [len(page) for page in pages] == [3, 3, 1]
    newest_first = [f"Fact number {number} is kept." for number in range(6, -1, -1)]
    assert [title for page in pages for title in page] == newest_first


def test_a_list_marks_what_does_not_simply_hold(client: Client, store: MemoryStore) -> None:
    said = ("Tea is at four.", "Tea is at five.", "Lunch is at one.", "Lunch is at two.", "Supper is at eight.")
    nodes = [client.call("remember", {"text": text})["node_id"] for text in said]
    for newer, older, relation in ((1, 0, "Supersedes"), (3, 2, "Contradicts")):
        client.call("link", {"from": nodes[newer], "to": nodes[older], "relation": relation})

    def states() -> list[str | None]:
        listed = {one["node_id"]: one.get("state") for one in client.call("list", {"level": "L1"})["memories"]}
        return [listed[node_id] for node_id in nodes]

    assert states() == ["replaced", None, "disputed", "disputed", None]
    store.forget(nodes[3])
    assert client.call("list", {"level": "L1"})["memories"][-1]["node_id"] == nodes[0]
    client.call("observe", {"session": {"session_id": "s1"}, "turns": TURNS})
    client.call("forget", {"node_id": "s1#1"})
    turns = {one["node_id"]: one.get("state") for one in client.call("list", {"kind": "turn"})["memories"]}
    assert (turns["s1#1"], turns["s1#2"]) == ("forgotten", None)


def test_show_names_contradictions_and_never_forgotten_words(client: Client) -> None:
    said = ("I submitted my cover letter to Greg for a review.", "I have never submitted my cover letter to Greg.")
    older, newer = (client.call("remember", {"text": text})["node_id"] for text in said)
    while not (shown := client.call("show", {"node_id": older}))["contradicts"]:
        pass
    assert (shown["contradicts"], shown["superseded_by"], shown["supersedes"]) == ([newer], None, [])
    client.call("observe", {"session": {"session_id": "s1"}, "turns": TURNS})
    client.call("forget", {"node_id": "s1#1"})
    assert "PostgreSQL" not in client.call("show", {"node_id": "s1#1"})["text"]


def test_a_long_memory_is_shown_in_pages(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(question_methods, "MAX_TEXT_BYTES", 1000)
    text = "\n".join(f'Line {number} "ümlaut" \\ tab\t' for number in range(200))
    node_id = client.call("remember", {"text": text})["node_id"]
    shown, offset = "", 0
    while offset is not None:
        page = client.call("show", {"node_id": node_id, "offset": offset})
        shown += page["text"]
        offset = page["next"]
    assert shown.strip() == text.strip()
    assert offset is None


def test_forget_names_the_run_that_undoes_it(client: Client) -> None:
    node_id = client.call("remember", {"text": "Friday is for deployments."})["node_id"]
    assert client.call("forget", {"node_id": node_id})["run_id"]
    with pytest.raises(DaemonError) as caught:
        client.call("forget", {"node_id": "no-such"})
    assert caught.value.code == NOT_FOUND
    assert caught.value.hint


def nested(depth: int) -> dict[str, Any]:
    given: dict[str, Any] = {"field": "kind", "eq": "turn"}
    for _ in range(depth):
        given = {"must": [given]}
    return given


@pytest.mark.parametrize(
    ("method", "params", "says"),
    [
        ("recall", {}, "'query' is missing"),
        ("recall", {"query": "x" * (2**16 + 1)}, "'query'"),
        ("recall", {"query": 7}, "'query'"),
        ("recall", {"query": "a\ud800b"}, "'query'"),
        ("recall", {"query": "a", "limit": 0}, "'limit'"),
        ("recall", {"query": "a", "limit": 1001}, "'limit'"),
        ("recall", {"query": "a", "limit": True}, "'limit'"),
        ("recall", {"query": "a", "limit": "ten"}, "'limit'"),
        ("recall", {"query": "a", "levels": ["L4"]}, "'levels.0'"),
        ("recall", {"query": "a", "levels": "L1"}, "'levels'"),
        ("recall", {"query": "a", "chanel": "x"}, "no parameter 'chanel'"),
        ("recall", {"query": "a", "channel": "a\nb"}, "'channel'"),
        ("recall", {"query": "a", "as_of": "yesterday"}, "'as_of'"),
        ("recall", {"query": "a", "filter": {}}, "'filter': give it a `field` and one of eq, in, range and exists"),
        ("recall", {"query": "a", "filter": "kind"}, "'filter': it is an object"),
        ("recall", {"query": "a", "filter": {"field": "size", "eq": "1"}}, "'filter.field'"),
        (
            "recall",
            {"query": "a", "filter": {"field": "kind", "eq": "idea"}},
            "there is no kind 'idea'; there are",
        ),
        ("recall", {"query": "a", "filter": {"field": "kind"}}, "by exactly one of eq, in, range and exists"),
        ("recall", {"query": "a", "filter": {"field": "kind", "eq": "turn", "exists": True}}, "by exactly one of"),
        ("recall", {"query": "a", "filter": {"eq": "turn"}}, "say which `field` is tested"),
        ("recall", {"query": "a", "filter": {"field": "tags", "range": {"gte": "2026-01-01"}}}, "`tags` has no order"),
        ("recall", {"query": "a", "filter": {"field": "time", "eq": "2026-01-01"}}, "test `time` by range"),
        (
            "recall",
            {"query": "a", "filter": {"field": "time", "range": {"gt": "May"}}},
            "'filter.range.gt': it is",
        ),
        ("recall", {"query": "a", "filter": {"field": "time", "range": {}}}, "at least one of gte, gt, lte and lt"),
        ("recall", {"query": "a", "filter": {"must": [{"field": "tags", "eqq": "a"}]}}, "'filter.must.0.eqq'"),
        ("recall", {"query": "a", "filter": nested(6)}, "its groups lie deeper than 5"),
        ("recall", {"query": "a", "filter": nested(300)}, "its groups lie deeper than 5"),
        (
            "context",
            {"query": "a", "filter": {"should": [nested(1)] * 40, "must": [nested(2)] * 40}},
            "it has 80 tests",
        ),
        ("list", {"filter": {"field": "tags", "in": []}}, "'filter.in'"),
        ("context", {"query": "a", "budget_tokens": 100_001}, "'budget_tokens'"),
        ("context", {"query": "a", "budget_tokens": 0}, "'budget_tokens'"),
        ("remember", {"text": ""}, "'text'"),
        ("remember", {"text": "a", "kind": "turn"}, "'kind'"),
        ("remember", {"text": "a", "tags": "one"}, "'tags'"),
        ("remember", {"text": "a", "tags": [""]}, "'tags.0'"),
        ("observe", {"session": {"session_id": "s"}}, "'turns' is missing"),
        ("observe", {"session": {}, "turns": []}, "'session.session_id' is missing"),
        ("observe", {"session": {"session_id": "s"}, "turns": [{"role": "user"}]}, "'turns.0.text' is missing"),
        ("observe", {"session": {"session_id": "s"}, "turns": [{"role": "u", "text": "a", "x": 1}]}, "'turns.0.x'"),
        (
            "observe",
            {"session": {"session_id": "s"}, "turns": [{"role": "u", "text": "a", "at": "0001-01-01T00:00:00+14:00"}]},
            "'turns.0.at': it is too near to an end of the calendar",
        ),
        ("recall", {"query": "a", "as_of": "9999-12-31T23:00:00-05:00"}, "'as_of': it is too near to an end"),
        ("show", {"node_id": ""}, "'node_id'"),
        ("show", {"node_id": "x", "offset": -1}, "'offset'"),
        ("list", {"kind": "opinion"}, "'kind'"),
        ("feedback", {"verbose": True}, "no parameter 'verbose'"),
    ],
)
def test_parameters_out_of_bounds_are_named(serve: Serve, method: str, params: dict[str, Any], says: str) -> None:
    untouched: Any = None
    with serve(store_methods(untouched)).client() as client, pytest.raises(DaemonError) as caught:
        client.call(method, params)
    assert caught.value.code == INVALID_PARAMS
    assert says in str(caught.value)


UUID = "adfdf000-e4d8-4e9b-80e7-59f13ae90ae4"


@pytest.mark.parametrize(
    "as_copied",
    [f"[{UUID}#1]", f" {UUID} # 1 ", f"`{UUID}#1`", f"[{UUID}#1] turn, 21 Nov", "adfdf000#1", "[adfdf000#1]"],
)
def test_an_id_is_taken_as_answers_print_it(client: Client, as_copied: str) -> None:
    turns = [{"role": "user", "text": "The orders service listens on 8443."}]
    client.call("observe", {"session": {"session_id": UUID}, "turns": turns})
    assert client.call("show", {"node_id": as_copied})["node_id"] == f"{UUID}#1"
    assert client.call("feedback", {"node_id": as_copied, "verdict": "useful"})["node_id"] == f"{UUID}#1"


def test_a_short_id_that_two_sessions_begin_with_is_none_of_them(client: Client) -> None:
    turns = [{"role": "user", "text": "The orders service listens on 8443."}]
    for session_id in (UUID, UUID.replace("ae4", "ae5")):
        client.call("observe", {"session": {"session_id": session_id}, "turns": turns})
    with pytest.raises(DaemonError) as caught:
        client.call("show", {"node_id": "adfdf000#1"})
    assert caught.value.code == NOT_FOUND


def test_a_kind_is_taken_in_any_case_and_by_the_word_of_the_instructions(client: Client) -> None:
    kinds = {"Decision": "decision", " rule": "preference", "PITFALL": "pitfall"}
    for number, (named, kept) in enumerate(kinds.items()):
        node_id = client.call("remember", {"text": f"Statement number {number}.", "kind": named})["node_id"]
        assert client.call("show", {"node_id": node_id})["kind"] == kept


def test_numbers_in_quotes_and_one_text_for_a_list_are_taken(client: Client) -> None:
    node_id = client.call("remember", {"text": "The orders service listens on 8443."})["node_id"]
    assert client.call("recall", {"query": "orders service listens", "limit": "3"})["hits"]
    assert client.call("context", {"query": "orders service listens", "budget_tokens": " 300 "})["slots"]
    assert client.call("tag", {"node_id": node_id, "add": "port"})["tags"] == ["port"]
    kept = client.call("reflect", {"session": "s1", "learned": "Restart it after the change."})["kept"]
    assert [(one["kind"], one["text"]) for one in kept] == [("procedure", "Restart it after the change.")]


@pytest.mark.parametrize(
    ("method", "params", "says"),
    [
        ("tag", {"node_id": "x", "add": 7}, "'add': should be an array"),
        ("reflect", {"session": "s", "learned": [7]}, "'learned.0': should be an object"),
        ("reflect", {"session": "s"}, "give what was learned, or the outcome"),
        ("recall", {"query": ["x"]}, "'query': should be a string"),
        ("recall", {"query": "x", "limit": True}, "'limit': should be a whole number"),
        ("recall", {"query": "x", "explain": "perhaps"}, "'explain': should be true or false"),
    ],
)
def test_complaints_are_in_the_words_of_json(serve: Serve, method: str, params: dict[str, Any], says: str) -> None:
    untouched: Any = None
    with serve(store_methods(untouched)).client() as client, pytest.raises(DaemonError) as caught:
        client.call(method, params)
    assert str(caught.value) == says


def test_hits_too_long_for_the_line_are_counted_in_a_note(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        client.call("remember", {"text": f"Parrot {number} can squawk. " + f"squawk{number} " * 30})
    monkeypatch.setattr(question_methods, "MAX_TEXT_BYTES", 700)
    answer = client.call("recall", {"query": "parrot squawk", "limit": 1000})
    assert len(answer["hits"]) == 2
    assert answer["notes"][-1].startswith("1 more")
    monkeypatch.setattr(question_methods, "MAX_TEXT_BYTES", 100)
    answer = client.call("recall", {"query": "parrot squawk", "limit": 1000})
    assert [len(hit["text"]) for hit in answer["hits"]] == [100]


@given(st.text(), st.integers(1, 200))
def test_a_cut_text_fits_and_is_a_beginning(text: str, size_bytes: int) -> None:
    cut = cut_to_bytes(text, size_bytes)
    assert text.startswith(cut)
    assert len(encode({"": cut})) - len(encode({"": ""})) <= size_bytes


@dataclass(frozen=True)
class Part:
    kept: int
    unasked: int | None = field(default=None, metadata=IF_ANY)
    inner: str = field(default="", metadata=UNSENT)


def test_values_become_json() -> None:
    answer = {
        "at": NOW,
        "level": Level.FACT,
        "who": Evidence("a#1", "D1"),
        "names": frozenset({"b", "a"}),
        "path": Path("/a"),
        "many": (Part(1), Part(0, 2, "x")),
        "table": MappingProxyType({Level.FACT: None}),
    }
    assert json.loads(encode(answer)) == {
        "at": "2026-11-21T09:00:00+00:00",
        "level": "L1",
        "who": {"node_id": "a#1", "external_id": "D1"},
        "names": ["a", "b"],
        "path": "/a",
        "many": [{"kept": 1}, {"kept": 0, "unasked": 2}],
        "table": {"L1": None},
    }
    with pytest.raises(TypeError):
        encode({"odd": object()})


def test_several_questions_are_answered_in_one_call_each_as_alone(client: Client) -> None:
    for text in ("The deploy key lives in 1Password.", "The office is in Linz."):
        client.call("remember", {"text": text})
    asked = ["where is the deploy key?", "in which town is the office?", "zxqv"]
    together = client.call("recall", {"queries": asked, "limit": 1})
    assert together["hits"] == []
    alone = [client.call("recall", {"query": query, "limit": 1}) for query in asked]
    assert together["answers"] == alone
    assert together["confidence"] == max(one["confidence"] for one in alone)
    refused: list[dict[str, Any]] = [{"queries": asked, "query": "x"}, {"queries": []}, {"queries": ["x"] * 17}]
    for wrong in refused:
        with pytest.raises(DaemonError):
            client.call("recall", wrong)
