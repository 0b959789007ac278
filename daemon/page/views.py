"""The views of the page: each asks methods of the daemon, and names the template that shows their answers."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

from ...ipc.protocol import NOT_FOUND, Json, ProtocolError
from ...store.model import ALL_CHANNELS
from ..clock import local_now
from ..formatting import when
from .guard import PageRequest, together
from .wording import ShownTurn, said, thing_address, turns

HITS, ROWS, TURNS = 20, 30, 120
"""The most hits of a search, rows of a list, and turns of a conversation on one page."""

THINGS, DRAWN_AT_ONCE, MOST_DRAWN = 100, 500, 2500
"""The people and things of a list, of one answer for the drawing, and of the drawing."""

MOST_REPEATED, MOST_GOING, SAME_TEXT = 6, 100, 48
"""The texts shown beside an erasure, the items that are listed of one, the characters that tell texts apart."""

MOST_LIVES, MOST_EVENTS, MARKS, MOST_GROUPED = 100, 100, 50, 200
CHANNELS_S, BRIEFS_S, FIRST_S = 10.0, 60.0, 600.0
"""The age of answers that are shown again: the names of projects, their dates ahead, the time of their first fact."""

LATELY, RECENT = timedelta(days=1), timedelta(days=14)
MOST_PEOPLE, MOST_OVER = 24, 10
WEAK = 0.1
"""The confidence below which a hit hardly answers: it is folded away."""

KINDS = ("fact", "decision", "value", "preference", "procedure", "pitfall", "correction", "negative", "event", "person")
KINDS_OF_MEMORIES = (*KINDS, "finding", "note", "episode", "scenario", "insight", "profile", "document")
EDITABLE = ("note", *KINDS, "finding", "episode")
KINDS_TO_KEEP = ("note", "fact", "preference", "procedure", "decision", "correction", "negative", "pitfall")


async def today(asked: PageRequest) -> Json:
    """Return the latest changes, open decisions, dates ahead, and the texts that agents were told."""
    since = (local_now() - LATELY).isoformat()
    status, runs, told, review, digest, sessions, learned = await together(
        asked.call("status"),
        asked.call("runs", limit=6),
        asked.call("told", since=since, limit=4),
        asked.call("review_list"),
        asked.call_if_any("digest"),
        asked.call("list", level="L0", limit=5),
        asked.call("list", level="L1", limit=12, texts=True),
    )
    ahead = await _ahead(asked, dict.fromkeys(one["channel"] for one in sessions["memories"]))
    return {
        "status": status,
        "runs": runs["runs"],
        "told": told,
        "review": review,
        "waits": _waits(review),
        "digest": digest,
        "lead": _lead(digest["text"]) if digest else "",
        "sessions": sessions["memories"],
        "learned": [one for one in learned["memories"] if one["live"]][:6],
        "ahead": ahead,
    }


def _waits(review: Json) -> int:
    return int(review["total"]) + sum(len(review[kind]) for kind in ("waiting", "drafts", "files"))


def _lead(text: str) -> str:
    """Return the first sentences of a digest: those of its latest dream."""
    others = ("#", "<!--", ">", "Undo it all")
    return next((line for line in text.splitlines() if line.strip() and not line.startswith(others)), "")


async def _ahead(asked: PageRequest, channels: Iterable[str]) -> list[tuple[str, Sequence[str]]]:
    """Return the lines on days ahead of the projects that were worked on last."""
    names = list(channels)[:4]
    briefs = await together(*(asked.lately(BRIEFS_S, "brief", channel=name) for name in names))
    found = [
        (name, section["lines"])
        for name, brief in zip(names, briefs, strict=True)
        for section in brief["sections"]
        if section["heading"] == "Dates ahead"
    ]
    return [(name, lines) for name, lines in found if lines]


async def search(asked: PageRequest) -> Json:
    """Return the answers to a question, each with the way it was found."""
    query, channel = asked.word("q").strip(), asked.word("channel") or ALL_CHANNELS
    values: Json = {"q": query, "channel": channel, "on": asked.word("day"), "archived": asked.word("archived")}
    values |= {"kind": asked.word("kind"), "kinds": ("turn", *KINDS_OF_MEMORIES)}
    if "part" not in asked.words:
        values["channels"] = await known_channels(asked)
    if not query:
        return values | {"answer": None, "why": {}, "strong": (), "weak": ()}
    # An explained question is no question of a person's to learn from: half a word is not one.
    answer = await asked.call(
        "recall",
        query=query,
        channel=channel,
        limit=HITS,
        explain=True,
        include_archived=bool(values["archived"]) or None,
        as_of=_end_of(values["on"]),
        filter={"field": "kind", "eq": values["kind"]} if values["kind"] else None,
    )
    hits = answer["hits"]
    strong = [hit for hit in hits if hit["confidence"] >= WEAK]
    weak = [hit for hit in hits if hit["confidence"] < WEAK]
    return values | {"answer": answer, "why": _why(answer), "strong": strong, "weak": weak}


def _why(answer: Json) -> Mapping[str, Json]:
    """Return for each hit its ranks and the priors that moved it; a fact has those of the turn behind it."""
    candidates = reversed(answer["trace"]["candidates"])
    ranked = {node: one for one in candidates for node in (one["unit"], *one["nodes"])}
    names = {hit["node_id"]: (hit["node_id"], *(one["node_id"] for one in hit["evidence"])) for hit in answer["hits"]}
    found = {hit: next((ranked[name] for name in of_hit if name in ranked), None) for hit, of_hit in names.items()}
    return {hit: one for hit, one in found.items() if one is not None}


def _end_of(day: str) -> str | None:
    """Return the last second of a day that a form named; None for none."""
    try:
        return datetime.combine(datetime.fromisoformat(day).date(), time(23, 59, 59)).astimezone().isoformat()
    except ValueError:
        return None


async def known_channels(asked: PageRequest) -> Mapping[str, int]:
    """Return the channels that have a memory, those with most first, with their numbers."""
    counted: Mapping[str, int] = (await asked.lately(CHANNELS_S, "status"))["channels"]
    return dict(sorted(counted.items(), key=lambda one: -one[1]))


async def projects(asked: PageRequest) -> Json:
    """Return the projects, those with most first."""
    status = await asked.call("status")
    channels = sorted(status["channels"].items(), key=lambda one: -one[1])
    at = asked.whole("from")
    page = channels[at : at + ROWS]
    latest = await together(*(asked.call("list", channel=name, level="L0", limit=1) for name, _ in page))
    last = {
        name: found["memories"][0] if found["memories"] else None for (name, _), found in zip(page, latest, strict=True)
    }
    return {
        "channels": page,
        "last": last,
        "off": status["channels_off"],
        "next": at + ROWS if len(channels) > at + ROWS else 0,
    }


async def project(asked: PageRequest) -> Json:
    """Return a project in a few lines: what its agents start with, people, open threads and last sessions."""
    channel = asked.word("channel")
    # A briefing compares hundreds of facts: the page is there before, and without scripts has a link to it.
    is_part = "part" in asked.words
    brief = await asked.call("brief", channel=channel) if is_part or asked.word("whole") else None
    if is_part:
        return {"brief": brief, "channel": channel}
    threads, sessions, pages, people, pinned, latest = await together(
        asked.call("goals", channel=channel),
        asked.call("list", channel=channel, level="L0", limit=6),
        asked.call("list", channel=channel, kind="profile", limit=6),
        asked.call("entities", channel=channel, type="person", limit=MOST_PEOPLE),
        asked.call("list", channel=channel, always=True, limit=ROWS, texts=True),
        asked.call("list", channel=channel, level="L1", limit=MOST_LIVES, texts=True),
    )
    return {
        "channel": channel,
        "home": str(Path.home()),
        "brief": brief,
        "threads": threads["threads"],
        "sessions": sessions["memories"],
        "pages": pages["memories"],
        "people": _who(people),
        "pinned": [one for one in pinned["memories"] if one["live"]],
        "over": _over(latest["memories"], local_now() - RECENT),
    }


def _who(found: Json) -> list[Json]:
    """Return people, each with the words of their relations that hold."""
    does: dict[str, list[str]] = {}
    for one in found["relations"]:
        if one["until"] is None:
            does.setdefault(one["subject_id"], []).append(f"{said(one['relation'])} {one['object']}")
    return [one | {"does": list(dict.fromkeys(does.get(one["node_id"], ())))} for one in _by_name(found["entities"])]


def _over(found: Iterable[Json], since: datetime) -> list[Json]:
    """Return the facts that ceased to hold since a time, the latest first."""
    ended = [(at, one) for one in found if (at := when(one.get("until"))) and at >= since]
    return [one for _, one in sorted(ended, key=lambda pair: pair[0], reverse=True)][:MOST_OVER]


async def timeline(asked: PageRequest) -> Json:
    """Return the facts that held in a project on a day, each with the time from and until which it held."""
    channels = {} if "part" in asked.words else await known_channels(asked)
    channel = asked.word("channel") or next(iter(channels), "")
    last = local_now().date()
    at = _day(asked.word("at"), last)
    values: Json = {"channel": channel, "channels": channels, "last": last.isoformat(), "at": at.isoformat()}
    if not channel:
        return values
    held = await asked.call(
        "list", channel=channel, level="L1", as_of=_end_of(at.isoformat()), limit=MOST_LIVES, texts=True
    )
    groups: dict[str, list[Json]] = {}
    for one in held["memories"]:
        groups.setdefault(one["kind"], []).append(one)
    values["groups"] = sorted(groups.items(), key=lambda group: (*KINDS, group[0]).index(group[0]))
    values["more"] = held["next"] is not None
    # The slider begins at the first fact; where it is moved, its page knows that already.
    if "part" not in asked.words:
        oldest = when(await _first(asked, channel)) or local_now()
        values |= {"first": oldest.date().isoformat(), "days": max(0, (last - oldest.date()).days)}
    return values


def _day(given: str, last: date) -> date:
    """Return a day that a form named, none later than the last; else the last."""
    try:
        return min(date.fromisoformat(given), last)
    except ValueError:
        return last


async def _first(asked: PageRequest, channel: str) -> str | None:
    """Return the time of a project's oldest fact, found by halving its list."""
    low, high = 0, 1
    while (await asked.lately(FIRST_S, "list", channel=channel, level="L1", limit=1, offset=high))["memories"]:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        found = await asked.lately(FIRST_S, "list", channel=channel, level="L1", limit=1, offset=middle)
        low, high = (middle, high) if found["memories"] else (low, middle)
    oldest = (await asked.lately(FIRST_S, "list", channel=channel, level="L1", limit=1, offset=low))["memories"]
    return oldest[0]["created_at"] if oldest else None


async def memories(asked: PageRequest) -> Json:
    """Return a page of the memories, newest first, by project, kind, and those of every briefing."""
    kind, always = asked.word("kind"), asked.word("always") == "1"
    levels = None if kind else {"field": "level", "in": ["L1", "L2", "L3"]}
    return {
        **await _newest(asked, "memories", kind=kind or None, always=always or None, texts=True, filter=levels),
        "kind": kind,
        "always": always,
        "kinds": KINDS_OF_MEMORIES,
        "kept": KINDS_TO_KEEP,
    }


async def _newest(asked: PageRequest, name: str, **narrowed: Any) -> Json:
    """Return a page of a list of the wire under a name, newest first, with the projects that it may be narrowed to."""
    channel, at = asked.word("channel"), asked.whole("from")
    listed, channels = await together(
        asked.call("list", channel=channel or None, limit=ROWS, offset=at, **narrowed), known_channels(asked)
    )
    return {name: listed["memories"], **_pages(at, listed["next"]), "channel": channel, "channels": channels}


def _pages(at: int, following: int | None, size: int = ROWS) -> Json:
    """Return the places of the pages of a list before and after the one at a place, None for none."""
    return {"next": following, "before": max(0, at - size) if at else None}


LINKED = (
    ("is related to", "RelatesTo", True),
    ("is related from", "RelatesTo", False),
    ("links to", "LinksTo", True),
    ("is linked from", "LinksTo", False),
)
"""The words for a link by its relation, and if it goes out."""


async def memory(asked: PageRequest) -> Json:
    """Return a memory with its sources and its relations to others."""
    shown = await asked.call("show", node_id=asked.word("node_id"), offset=asked.whole("offset"))
    if "#" in shown["node_id"]:
        session, _, ordinal = shown["node_id"].partition("#")
        return {"moved_to": f"/session/{session}?turn={ordinal}#t{ordinal}"}
    if shown["kind"] == "entity" and shown["live"] and not asked.word("file"):
        return {"moved_to": thing_address(shown["title"])}
    if shown["kind"] == "session":
        return {"moved_to": f"/session/{shown['node_id']}"}
    named = [("was replaced by", [shown["superseded_by"]] if shown["superseded_by"] else [])]
    named += [("was perhaps replaced by", shown["later"]), ("took the place of", shown["supersedes"])]
    named += [("contradicts", shown["contradicts"]), ("stands in", shown["cited_by"])]
    for words, relation, out in LINKED:
        ends = [one["node_id"] for one in shown["links"] if (one["relation"], one["out"]) == (relation, out)]
        named.append((words, ends))
    history, sources, *others = await together(
        asked.call_if_any("history", node_id=shown["node_id"], limit=MOST_EVENTS),
        _shown(asked, [one["node_id"] for one in shown["evidence"][:6]]),
        *(_shown(asked, some[:6]) for _, some in named),
    )
    related = [(words, found) for (words, _), found in zip(named, others, strict=True) if found]
    return {
        "memory": shown,
        "sources": sources,
        "related": related,
        "events": history["events"] if history else (),
        "editable": EDITABLE,
        "editing": bool(asked.word("edit")),
    }


async def _shown(asked: PageRequest, node_ids: Sequence[str]) -> list[Json]:
    found = await together(*(asked.call_if_any("show", node_id=node_id) for node_id in node_ids))
    return [one for one in found if one is not None]


async def sessions(asked: PageRequest) -> Json:
    """Return a page of the sessions, newest first."""
    return await _newest(asked, "sessions", level="L0")


async def session(asked: PageRequest) -> Json:
    """Return a session as a conversation, a page of its turns."""
    name, offset = asked.word("node_id"), asked.whole("offset")
    shown = await asked.call("show", node_id=name, offset=offset)
    found = turns(shown["text"])
    at = asked.whole("from")
    if (turn := asked.whole("turn")) and not at:
        at = _page_of(found, turn)
    page = found[at : at + TURNS]
    more = len(found) > at + TURNS
    wanted = await asked.call_if_any("show", node_id=f"{name}#{turn}") if turn else None
    drawn = await _shown(asked, wanted["cited_by"][:6]) if wanted else []
    return {
        "drawn": [one for one in drawn if one["level"] == "L1"],
        "may_forget": wanted is not None and wanted["live"],
        "session": shown,
        "turns": page,
        "wanted": asked.whole("turn"),
        "offset": offset,
        **_pages(at, at + TURNS if more else None, TURNS),
        "next_offset": shown["next"] if not more else None,
        "count": len(found),
    }


def _page_of(found: Sequence[ShownTurn], ordinal: int) -> int:
    place = next((place for place, turn in enumerate(found) if turn.ordinal == ordinal), 0)
    return place - place % TURNS


async def things(asked: PageRequest) -> Json:
    """Return a page of the people and things by their type, the most mentioned first."""
    channel, kind, at = asked.word("channel"), asked.word("type"), asked.whole("from")
    found, channels = await together(
        asked.call("entities", channel=channel or ALL_CHANNELS, type=kind or None, limit=THINGS, offset=at),
        known_channels(asked),
    )
    return {
        "groups": _by_type(_by_name(found["entities"])),
        "total": found["total"],
        **_pages(at, found["next"], THINGS),
        "channel": channel,
        "kind": kind,
        "channels": channels,
        "kinds": KINDS_OF_THINGS,
    }


def _by_name(entities: Sequence[Json]) -> list[Json]:
    """Return people and things once each, however many projects have a page of theirs."""
    found: dict[str, Json] = {}
    for one in entities:
        known = found.setdefault(one["key"], {**one, "channels": [], "mentions": 0, "relations": 0})
        known["channels"].append(one["channel"])
        known["mentions"] += one["mentions"]
        known["relations"] += one["relations"]
    return list(found.values())


def _by_type(found: Sequence[Json]) -> list[tuple[str, list[Json]]]:
    """Return people and things by their type, people first, the most mentioned of each first."""
    groups: dict[str, list[Json]] = {}
    for one in sorted(found, key=lambda one: (-one["mentions"], one["name"].casefold())):
        groups.setdefault(one["type"], []).append(one)
    return sorted(groups.items(), key=lambda group: (*KINDS_OF_THINGS, group[0]).index(group[0]))


async def graph(asked: PageRequest) -> Json:
    """Return the nodes and edges of people and things, for the drawing: at most MOST_DRAWN nodes."""
    channel, kind = asked.word("channel") or ALL_CHANNELS, asked.word("type") or None
    entities: list[Json] = []
    relations: list[Json] = []
    at: int | None = 0
    while at is not None and len(entities) < MOST_DRAWN:
        page = await asked.lately(CHANNELS_S, "entities", channel=channel, type=kind, limit=DRAWN_AT_ONCE, offset=at)
        entities += page["entities"]
        relations += page["relations"]
        at = page["next"]
    names = {one["node_id"]: one["key"] for one in entities}
    drawn = {one["key"]: one for one in _by_name(entities)}
    ends = (
        (names.get(one["subject_id"]), one["relation"], names.get(one["object_id"]), one["until"]) for one in relations
    )
    edges = {(one, relation, other): until is None for one, relation, other, until in ends if one and other}
    places = {key: place for place, key in enumerate(drawn)}
    return {
        "json": {
            "nodes": [[one["name"], one["type"], one["mentions"]] for one in drawn.values()],
            "edges": [[places[one], places[other], said(name), holds] for (one, name, other), holds in edges.items()],
        }
    }


async def thing(asked: PageRequest) -> Json:
    """Return a person or a thing by its relations, facts and mentions."""
    name = asked.word("name")
    found = await asked.call("about", name=name, channel=asked.word("channel") or ALL_CHANNELS, budget_tokens=4000)
    if not found["entities"] and not found["lines"]:
        raise ProtocolError(
            f"Nothing is known of {name}.", "A dream makes a page of who is named more than once.", NOT_FOUND
        )
    # The text names its turn, to which the line is a link here.
    for line in found["lines"]:
        line["text"] = re.sub(r" \[[^\[\]\s]+#\d+\]$", "", line["text"])
    return {"thing": found}


async def review(asked: PageRequest) -> Json:
    """Return the open decisions, and the marks that may be taken back."""
    at = asked.whole("from")
    found = await asked.call("review_list", offset=at)
    more = at + len(found["marks"]) < found["marks_total"]
    return {
        "review": found,
        "waits": _waits(found),
        "from": at,
        **_pages(at, at + len(found["marks"]) if more and found["marks"] else None, MARKS),
    }


async def runs(asked: PageRequest) -> Json:
    """Return the runs, newest first, and the dream that is under way."""
    most = asked.whole("most", ROWS, 1000)
    everything = asked.word("all") == "1"
    found, status = await together(asked.call("runs", limit=most, all=everything or None), asked.call("status"))
    due, now = when(status["next_dream"]), local_now()
    return {
        "is_ahead": due is not None and due > now,
        "runs": found["runs"],
        "all": everything,
        "more": min(most + ROWS, 1000) if len(found["runs"]) == most and most < 1000 else None,
        "dream": status["dream"],
        "status": status,
    }


async def run(asked: PageRequest) -> Json:
    """Return a run and its changes: so many that they can be grouped, else a page of them."""
    run_id, at = asked.word("run_id"), asked.whole("from")
    found = await asked.call("run", run_id=run_id, offset=at)
    changes, following = list(found["changes"]), found["next"]
    while following is not None and len(changes) < MOST_GROUPED:
        page = await asked.call("run", run_id=run_id, offset=following)
        changes += page["changes"]
        following = page["next"]
    return {"run": found["run"], "changes": changes, "next": following, "asks": asked.word("undo") == "1"}


async def digest(asked: PageRequest) -> Json:
    """Return the digest of a day, the newest where none is named."""
    return {"digest": await asked.call("digest", date=asked.word("date") or None)}


async def told(asked: PageRequest) -> Json:
    """Return the texts that agents were handed."""
    found, pinned = await together(
        asked.call("told", limit=ROWS, session=asked.word("session") or None),
        asked.call("list", always=True, limit=ROWS, texts=True),
    )
    return {"told": found, "pinned": [one for one in pinned["memories"] if one["live"]]}


async def purging(asked: PageRequest) -> Json:
    """Return the content that a purge would take, before anything is taken."""
    node_id, matching = asked.word("node_id"), asked.word("matching").strip()
    named: Json = {"nodes": [node_id]} if node_id else {"matching": matching} if matching else {}
    preview = await asked.call("purge", dry_run=True, **named) if named else None
    values: Json = {"preview": preview, "node_id": node_id, "matching": matching, "back": asked.word("back", "/")}
    if preview is None:
        return values
    repeated = await _shown(asked, preview["repeated_in"][:MOST_REPEATED])
    return values | {
        "groups": _going(preview["items"]),
        "repeated": list({one["text"][:80]: one for one in repeated}.values()),
        "listed": len(preview["items"]) < MOST_GOING,
    }


def _going(items: Sequence[Json]) -> list[tuple[str, list[Json]]]:
    """Return the texts that a purge would take in groups, each once, with the kinds in which it is kept."""
    groups: dict[str, dict[str, Json]] = {name: {} for name in ("said", "work", "pages", "lines")}
    for one in items:
        is_page = one["because"] == "quotes"
        is_work = one["kind"] == "note" and one["created_at"] is None
        name = ("pages" if one["goes"] else "lines") if is_page else "work" if is_work else "said"
        title = (one["title"] or one["node_id"]).rstrip("…. ")
        key = f"{title}{one['channel']}" if is_page else title[:SAME_TEXT]
        known = groups[name].setdefault(key, one | {"kinds": []})
        known["kinds"] += [one["kind"]] if one["kind"] not in known["kinds"] else []
    return [(name, list(found.values())) for name, found in groups.items() if found]


async def health(asked: PageRequest) -> Json:
    """Return the state of the daemon, and the findings of the doctor where they are asked for."""
    # The doctor waits for other programs, and with `check` reads the whole vault: the page is there before.
    checked = asked.word("check") == "1"
    findings = (await asked.call("doctor", files=checked))["findings"] if checked or "part" in asked.words else None
    if "part" in asked.words:
        return {"findings": findings, "checked": checked}
    status, metrics = await together(asked.call("status"), asked.call("metrics"))
    return {"status": status, "findings": findings, "checked": checked, "metrics": metrics["text"]}


async def dreaming(asked: PageRequest) -> Json:
    """Return the dream that is under way, for the page that follows it."""
    status = await asked.call("status")
    return {"dream": status["dream"], "status": status}


KINDS_OF_THINGS = ("person", "organisation", "team", "project", "service", "tool", "place", "file", "event", "other")
View = Callable[[PageRequest], Awaitable[Json]]
VIEWS: tuple[tuple[str, str, View], ...] = (
    ("/", "today.html", today),
    ("/search", "search.html", search),
    ("/projects", "projects.html", projects),
    ("/project/{channel}", "project.html", project),
    ("/timeline", "timeline.html", timeline),
    ("/memories", "memories.html", memories),
    ("/memory/{node_id:path}", "memory.html", memory),
    ("/sessions", "sessions.html", sessions),
    ("/session/{node_id}", "session.html", session),
    ("/things", "things.html", things),
    ("/things/graph", "", graph),
    ("/thing/{name}", "thing.html", thing),
    ("/review", "review.html", review),
    ("/runs", "runs.html", runs),
    ("/dream", "_dream.html", dreaming),
    ("/run/{run_id}", "run.html", run),
    ("/digest", "digest.html", digest),
    ("/told", "told.html", told),
    ("/purge", "purge.html", purging),
    ("/health", "health.html", health),
)
