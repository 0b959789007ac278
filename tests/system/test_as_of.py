"""A story with values that change, asked of at different times through the daemon: nothing comes from the future."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.bench.daemon_under_test import DaemonUnderTest
from tests.system.commands import typed

pytestmark = pytest.mark.system

SESSIONS = {
    "2026-05-01": ("The access token expires after 24 hours.", "We use MySQL for the shop, because Ines knows it."),
    "2026-06-10": ("Scrap that, we moved the shop to Postgres, because of its constraints.",),
    "2026-08-20": (
        "The access token of the shop expires after 2 hours from now on.",
        "The secret word of the shop is Rumpel.",
    ),
}
TOKEN, SHOP = "When does the access token expire?", "Which database does the shop use, MySQL or Postgres?"


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonUnderTest]:
    """Give a daemon that has dreamt of the story, in which one turn was forgotten."""
    with DaemonUnderTest(tmp_path_factory.mktemp("story"), {"DREAMD_STORE__EMBEDDING__MODEL": "stub"}) as daemon:
        for day, texts in SESSIONS.items():
            turns = [{"role": "user", "text": text, "at": f"{day}T09:00:0{n}+00:00"} for n, text in enumerate(texts)]
            session = {"session_id": f"s-{day}", "channel": "shop", "started_at": f"{day}T09:00:00+00:00"}
            daemon.call("observe", session=session, turns=turns)
        daemon.call("remember", text="Always answer in British English.", channel="shop", always=True)
        daemon.wait_until_embedded(60)
        assert daemon.call("dream", wait=True)["state"] == "applied"
        daemon.call("forget", node_id="s-2026-08-20#2")
        yield daemon


def asked(story: DaemonUnderTest, query: str, day: str | None, **params: Any) -> tuple[list[dict[str, Any]], str]:
    """Return the hits and the envelope for a question, as of a day's noon."""
    given = {"query": query, "channel": "shop"} | ({"as_of": f"{day}T12:00:00+00:00"} if day else {})
    hits = story.call("recall", **given, **params)["hits"]
    return hits, story.call("context", **given)["text"]


@pytest.mark.parametrize(
    ("day", "says", "is_silent_on"),
    [
        ("2026-04-30", [], ["24 hours", "MySQL", "Postgres", "2 hours", "British"]),
        ("2026-05-02", ["24 hours"], ["Postgres", "after 2 hours", "changed", "until", "British"]),
        ("2026-07-01", ["24 hours", "until 10 Jun 2026"], ["after 2 hours", "Aug", "British"]),
        ("2026-08-21", ["until 20 Aug 2026", "2 hours"], ["British"]),
        (None, ["until 20 Aug 2026", "2 hours", "British"], []),
    ],
)
def test_what_was_known_then_is_told_and_nothing_later(
    story: DaemonUnderTest, day: str | None, says: list[str], is_silent_on: list[str]
) -> None:
    hits, envelope = asked(story, TOKEN, day)
    assert all(words in envelope for words in says)
    told = envelope + json.dumps(hits)
    assert not [words for words in is_silent_on if words in told], told
    if day:
        assert all(hit["created_at"][:10] <= day for hit in hits)
        names = [name for hit in hits for name in (*hit["newer"], *(turn["node_id"] for turn in hit["evidence"]))]
        assert all(name.removeprefix("s-")[:10] <= day for name in names if name.startswith("s-"))


def test_the_value_of_the_time_comes_first(story: DaemonUnderTest) -> None:
    for day, value in (("2026-05-02", "24 hours"), ("2026-08-21", "2 hours"), (None, "2 hours")):
        hits, _ = asked(story, TOKEN, day)
        assert value in hits[0]["text"], day
    hits, _ = asked(story, SHOP, "2026-05-02")
    assert not any("Postgres" in hit["text"] for hit in hits)


@pytest.mark.parametrize("day", ["2026-08-21", None])
def test_what_was_forgotten_comes_back_by_no_question(story: DaemonUnderTest, day: str | None) -> None:
    hits, envelope = asked(story, "What is the secret word of the shop?", day, include_archived=True)
    assert "Rumpel" not in envelope + json.dumps(hits)


def test_pages_do_not_answer_for_an_earlier_time(story: DaemonUnderTest) -> None:
    answer = story.call("recall", query=TOKEN, channel="shop", levels=["L2", "L3"], as_of="2026-05-02T00:00:00+00:00")
    assert answer["hits"] == []
    assert any("written anew" in note for note in answer["notes"])


def test_the_command_line_asks_of_a_day_and_narrows(story: DaemonUnderTest) -> None:
    told = typed(story, "context", TOKEN, "--channel", "shop", "--as-of", "2026-05-01")
    assert "24 hours" in told.stdout
    august = ("--since", "2026-08-01", "--where", "kind=turn")
    narrowed = typed(story, "recall", TOKEN, "--channel", "shop", *august, "--json")
    hits = json.loads(narrowed.stdout)["hits"]
    assert [hit["node_id"] for hit in hits] == ["s-2026-08-20#1"]
    listed = typed(story, "list", "--channel", "*", "--where", "kind=turn", "--until", "2026-05-01", "--json")
    assert [one["node_id"] for one in json.loads(listed.stdout)["memories"]] == ["s-2026-05-01#2", "s-2026-05-01#1"]


def test_the_example_of_the_architecture_is_what_happens(daemon: DaemonUnderTest) -> None:
    for day, said in (
        ("2026-11-02", "Bookings are kept in SQLite."),
        ("2026-11-05", "Bookings are now kept in Postgres 16."),
    ):
        session = {"session_id": day, "channel": "shop", "started_at": f"{day}T09:00:00+00:00"}
        turn = {"role": "user", "text": said, "at": f"{day}T09:00:00+00:00"}
        daemon.call("observe", session=session, turns=[turn])
    daemon.wait_until_embedded(60)
    assert daemon.call("dream", wait=True)["state"] == "applied"
    facts = daemon.call("list", channel="shop", level="L1")["memories"]
    assert {fact["title"]: fact["live"] for fact in facts} == {
        "Bookings are kept in SQLite": False,
        "Bookings are now kept in Postgres 16": True,
    }
    digest = daemon.call("digest")["text"]
    assert "SQLite" in digest.partition("Bookings are now kept in Postgres 16")[0]
    pages = daemon.call("list", channel="shop", level="L3")["memories"]
    assert {page["kind"] for page in pages} <= {"entity"}  # a page of the channel begins at three lines
    question = {"query": "Where are bookings kept?", "channel": "shop"}
    assert "Postgres" in daemon.call("recall", **question)["hits"][0]["text"]
    assert "SQLite" in daemon.call("recall", **question, as_of="2026-11-03T12:00:00+00:00")["hits"][0]["text"]
