"""The commands that show memories and work in progress: recall, context, brief, show, list, anchor, goals."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..formatting import BOLD, DIM, YELLOW, Look, clean, clip, count, listing, pairs, table
from .arguments import KINDS, LEVELS, NODE_HELP, as_of, budget_arguments, chosen_filter, filter_arguments, whole
from .request import ask, shown_whole
from .terminal import Terminal

if TYPE_CHECKING:
    from ...ipc.protocol import Json


CHANNEL_HELP = (
    "the channel: one project's memories, or '*' for all; the project's name is enough. By default this folder's. "
    "_global is always searched too"
)
NO_PAGES = (
    "No such person or thing has a page here yet: a dream makes them. `dreamctl entities --channel '*'` lists those of "
    "all projects."
)
AS_OF_HELP = "what was known and held then, and nothing said later: 2026-11-01 (its end), an instant, 7d"
MOST_LINES_OF_A_HIT = 12
MOST_SOURCES = 4
MOST_CANDIDATES = 20
ENTITY_TYPES = ("person", "organisation", "team", "project", "service", "tool", "place", "file", "event", "other")


def recall_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of recall."""
    parser.add_argument("text", nargs="*", help="what to look for, in your own words")
    parser.add_argument("--also", action="append", metavar="TEXT", help="another question in the same call, up to 15")
    parser.add_argument("--like", metavar="NODE", help="instead of words: what is similar to this memory")
    parser.add_argument("--limit", type=whole(1, 1000), metavar="N", help="at most N memories (10)")
    parser.add_argument("--channel", help=CHANNEL_HELP)
    parser.add_argument("--session", help="the id of the asking session; its own turns are left out")
    parser.add_argument(
        "--level", action="append", choices=LEVELS, help="L0 turns, L1 facts, L2 scenarios, L3 profiles"
    )
    parser.add_argument("--explain", action="store_true", help="show how each hit was found")
    parser.add_argument(
        "--why-not", metavar="NODE", help="show where this node was dropped (of a dreamt fact, name its turn)"
    )
    budget_arguments(parser)
    parser.add_argument("--as-of", type=as_of, metavar="WHEN", help=AS_OF_HELP)
    parser.add_argument("--archived", action="store_true", help="look among what is archived or replaced, too")
    filter_arguments(parser, "TEXT ")


def recall(options: Namespace, terminal: Terminal) -> int:
    """Print the memories that answer a question."""
    from .main import UsageError

    if options.also and (not options.text or options.explain or options.why_not):
        raise UsageError("--also goes with a question, and with neither --explain nor --why-not")
    if bool(options.text) == bool(options.like):
        raise UsageError("give words to look for, or a memory by --like", "`dreamctl recall TEXT`")
    question = " ".join(options.text)
    params = {
        "query": None if options.also else question or None,
        "queries": [question, *options.also] if options.also else None,
        "like": options.like,
        "limit": options.limit,
        "channel": options.channel,
        "session": options.session,
        "levels": options.level,
        "explain": options.explain or None,
        "why_not": options.why_not,
        "min_score": options.min_score,
        "max_facts": options.max_facts,
        "as_of": options.as_of,
        "include_archived": options.archived or None,
        "filter": chosen_filter(options),
    }
    answer = ask(terminal, "recall", params)
    each = answer.get("answers") or [answer]
    if terminal.as_json:
        terminal.document(answer)
    else:
        for place, one in enumerate(each):
            if options.also:
                terminal.lines([*([""] if place else []), terminal.look.paint(params["queries"][place], BOLD)])
            _print_answer(one, options.channel, terminal)
    return 0 if any(one["hits"] or one["elsewhere"] for one in each) else 4


def _print_answer(answer: Json, channel: str | None, terminal: Terminal) -> None:
    for one in answer["exact"]:
        name = terminal.look.paint(clean(one["answer"]), BOLD)
        terminal.lines([f"{name}: “{clean(one['words'])}” [{one['turn']}]"])
    if answer["hits"]:
        terminal.lines(hits_in_words(answer["hits"], terminal.look))
        note_channels(answer["channel"], channel, terminal)
    else:
        terminal.note(f"{_nothing(answer)} answers this")
    if answer["elsewhere"]:
        terminal.lines(elsewhere_in_words(answer["elsewhere"], terminal.look))
    if "trace" in answer:
        terminal.lines(["", *trace_in_words(answer["trace"], terminal.look)])
    if "why_not" in answer:
        terminal.lines(["", *why_not_in_words(answer["why_not"], terminal.look)])
    for note in answer["notes"]:
        terminal.note(note)


def _nothing(answer: Json) -> str:
    """Begin a sentence on an answer without any memory, some of which may not be searched yet."""
    return "nothing is found yet that" if answer["incomplete"] else "nothing that is remembered here"


def context_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of context."""
    parser.add_argument("text", nargs="+", help="what the agent is about to do")
    parser.add_argument("--budget", type=whole(1, 100_000), metavar="TOKENS", help="the most tokens (1000)")
    parser.add_argument("--channel", help=CHANNEL_HELP)
    parser.add_argument("--session", help="the id of the asking session; its own turns are left out")
    budget_arguments(parser)
    parser.add_argument("--as-of", type=as_of, metavar="WHEN", help=AS_OF_HELP)
    filter_arguments(parser, "TEXT ")


def context(options: Namespace, terminal: Terminal) -> int:
    """Print the text that an agent would get."""
    params = {
        "query": " ".join(options.text),
        "budget_tokens": options.budget,
        "channel": options.channel,
        "session": options.session,
        "min_score": options.min_score,
        "max_facts": options.max_facts,
        "as_of": options.as_of,
        "filter": chosen_filter(options),
    }
    answer = ask(terminal, "context", params)
    if terminal.as_json:
        terminal.document(answer)
    elif answer["slots"]:
        terminal.lines([clean(answer["text"])])
        terminal.note(
            f"{count(answer['tokens'], 'token')} at most, from {count(len(answer['slots']), 'memory', 'memories')}"
        )
        note_channels(answer["channel"], options.channel, terminal)
    else:
        terminal.note(f"{_nothing(answer)} belongs to this")
    if not terminal.as_json:
        for note in answer["notes"]:
            terminal.note(note)
    return 0 if answer["slots"] else 4


def brief_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of brief."""
    parser.add_argument("--channel", help=CHANNEL_HELP)


def brief(options: Namespace, terminal: Terminal) -> int:
    """Print the briefing of a channel by its sections."""
    answer = ask(terminal, "brief", {"channel": options.channel})
    found = [section for section in answer["sections"] if section["lines"]]
    lines: list[str] = []
    for section in found:
        lines += ["", terminal.look.paint(clean(section["heading"]), BOLD)]
        lines += [one for line in section["lines"] for one in terminal.look.wrap(clean(line))]
    terminal.report(answer, lines[1:] or ["A session starts with nothing here yet."])
    return 0 if found else 4


def about_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of about."""
    parser.add_argument("name", nargs="+", help="the name of a person, a project, a tool or another thing")
    parser.add_argument("--budget", type=whole(50, 100_000), metavar="TOKENS", help="the most tokens (1000)")
    parser.add_argument("--channel", help=CHANNEL_HELP)


def about(options: Namespace, terminal: Terminal) -> int:
    """Print the knowledge of a person or a thing."""
    params = {"name": " ".join(options.name), "budget_tokens": options.budget, "channel": options.channel}
    answer = ask(terminal, "about", params)
    found = bool(answer["entities"] or answer["lines"])
    if not found and not terminal.as_json:
        terminal.note(
            f"nothing is known of {clean(params['name'])}; `dreamctl entities` lists the pages that there are"
        )
        return 4
    head, *lines = answer["text"].splitlines() or [""]
    shown = [terminal.look.paint(clean(head), BOLD)]
    shown += [one for line in lines for one in terminal.look.wrap(clean(line))]
    if answer["others"]:
        shown.append(f"The name also means {listing([clean(name) for name in answer['others']])}.")
    terminal.report(answer, shown)
    return 0 if found else 4


def entities_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of entities."""
    parser.add_argument("--type", choices=ENTITY_TYPES, help="only these")
    parser.add_argument("--limit", type=whole(1, 1000), metavar="N", help="at most N (100)")
    parser.add_argument("--offset", type=whole(0, 2**31), metavar="N", help="leave out the first N")
    parser.add_argument("--channel", help=CHANNEL_HELP)


def entities(options: Namespace, terminal: Terminal) -> int:
    """Print the people and things of a channel, most mentioned first."""
    params = {"type": options.type, "limit": options.limit, "offset": options.offset, "channel": options.channel}
    answer = ask(terminal, "entities", params)
    rows = [
        (one["node_id"], one["type"], f"{one['mentions']:,}", clean(one["name"]), one["channel"])
        for one in answer["entities"]
    ]
    if not rows:
        terminal.report(answer, terminal.look.wrap(NO_PAGES))
        return 4
    lines = table(rows, terminal.look, ("NODE", "TYPE", "TURNS", "NAME", "CHANNEL"), right=[2])
    if answer["next"] is not None:
        lines.append(f"There are more: --offset {answer['next']}")
    terminal.report(answer, lines)
    return 0


def show_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of show."""
    parser.add_argument("node", help=f"{NODE_HELP}; or of a turn")


def show(options: Namespace, terminal: Terminal) -> int:
    """Print one memory in full."""
    answer = shown_whole(options.node, terminal)
    terminal.report(answer, shown_in_words(answer, terminal.look))
    return 0


def history_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of history."""
    parser.add_argument("node", help=f"{NODE_HELP}; or of a turn")
    parser.add_argument("--limit", type=whole(1, 1000), metavar="N", help="at most the newest N events (200)")


def history(options: Namespace, terminal: Terminal) -> int:
    """Print the events of one memory."""
    answer = ask(terminal, "history", {"node_id": options.node, "limit": options.limit})
    terminal.report(answer, history_in_words(answer, terminal.look))
    return 0 if answer["events"] else NOTHING_FOUND


def history_in_words(answer: Json, look: Look) -> list[str]:
    """Describe each event, with the run that can be undone."""
    lines: list[str] = []
    for one in answer["events"]:
        who = f" by {one['who']}" if one["who"] else ""
        why = f": {one['why']}" if one["why"] else ""
        lines += look.wrap(clean(f"{look.ago(one['at'])} · {one['what']}{who}{why}"))
        lines += [look.paint(f"  run {clean(one['run_id'])}", DIM)] if one["run_id"] else []
    return lines or ["Nothing is recorded of it."]


def list_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of list."""
    parser.add_argument("--channel", help="one channel alone, or '*' for all; by default this folder's and _global")
    parser.add_argument("--level", choices=LEVELS)
    parser.add_argument("--kind", choices=KINDS)
    parser.add_argument("--always", action="store_true", help="only those that stand in every envelope")
    parser.add_argument("--tags", action="store_true", help="their tags instead, each with its number of memories")
    parser.add_argument("--limit", type=whole(1, 1000), metavar="N", help="at most N memories (50)")
    parser.add_argument("--offset", type=whole(0, 2**53), metavar="N", help="skip the newest N")
    filter_arguments(parser)


def list_(options: Namespace, terminal: Terminal) -> int:
    """List the newest memories."""
    params = {name: getattr(options, name) for name in ("channel", "level", "kind", "limit", "offset")}
    params |= {"always": options.always or None, "filter": chosen_filter(options), "tags": options.tags or None}
    if options.channel is None:
        with suppress(OSError):  # the folder is gone
            params["cwd"] = str(Path.cwd())
    answer = ask(terminal, "list", params)
    if terminal.as_json:
        terminal.document(answer)
    elif options.tags:
        rows = [(f"#{one['tag']}", str(one["memories"])) for one in answer["tags"]]
        terminal.lines(
            table(rows, terminal.look, ("tag", "memories"), right=(1,)) if rows else ["No memory has a tag."]
        )
    elif answer["memories"]:
        terminal.lines(memories_in_words(answer["memories"], terminal.look))
        if answer["next"] is not None:
            terminal.note(f"there are more: --offset {answer['next']}")
    else:
        terminal.note("there are no such memories; `dreamctl import` and `dreamctl remember` make some")
    if not terminal.as_json and "cwd" in params:
        terminal.note("of this folder's channel and _global; --channel '*' lists all")
    return 0


def note_channels(channel: str, asked: str | None, terminal: Terminal) -> None:
    """Print the searched channel, unless it was chosen; a user looks nowhere else."""
    if asked is None:
        everywhere = "" if terminal.user else "; --channel '*' looks everywhere"
        terminal.note(f"looked in {channel} and what is read with it{everywhere}")


def elsewhere_in_words(elsewhere: Iterable[Json], look: Look) -> list[str]:
    """List the hits of other channels, each under its name."""
    lines: list[str] = []
    for place in elsewhere:
        lines += [look.paint(f"Elsewhere, in {clean(place['channel'])}:", YELLOW), ""]
        lines += [*hits_in_words(place["hits"], look), ""]
    return lines[:-1]


def hits_in_words(hits: Iterable[Json], look: Look) -> list[str]:
    """Describe each hit: kind, age and channel in a line, then its text and sources."""
    lines: list[str] = []
    for hit in hits:
        speaker = hit.get("speaker") or ""
        by = clean(speaker) if speaker.startswith("colleague ") else ""
        about = [look.ago(hit["created_at"]), by, hit["channel"], f"confidence {hit['confidence']:.2f}"]
        about += [f"part {hit['chunk']} of {hit['chunks']}"] if hit.get("chunk") else []
        head = f"{hit['level']} {hit['kind']}"
        lines += [
            look.paint(head, BOLD)
            + look.paint(" · " + " · ".join(part for part in about if part), DIM)
            + "  "
            + clean(hit["node_id"]),
            *look.wrap(hit["text"] or hit["title"], "  ", MOST_LINES_OF_A_HIT),
        ]
        lines += [look.paint(line, YELLOW) for note in _doubts(hit) for line in look.wrap(note, "  ")]
        if sources := [turn for turn in hit["evidence"] if turn["node_id"] != hit["node_id"]]:
            lines += [look.paint(line, DIM) for line in look.wrap("from " + sources_in_words(sources), "  ")]
        lines.append("")
    return lines[:-1]


def _doubts(hit: Json) -> Iterator[str]:
    """Yield the reasons to doubt a hit."""
    if hit["superseded_by"]:
        yield f"replaced by: {clean(listing(hit['superseded_by'], MOST_SOURCES))}"
    if later := [one for one in hit["newer"] if one not in hit["superseded_by"]]:
        yield f"likely changed later: {clean(listing(later, MOST_SOURCES))}"
    if hit["contradicts"]:
        yield f"disputed by {clean(listing(hit['contradicts'], MOST_SOURCES))}"
    if hit["stale_after"]:
        yield "out of date"


def sources_in_words(evidence: Iterable[Json]) -> str:
    """List turns by their ids, each with its original id."""
    names = [
        f"{turn['node_id']} ({given})"
        if (given := turn["external_id"]) is not None and len(given) <= 16
        else turn["node_id"]
        for turn in evidence
    ]
    return clean(listing(names, MOST_SOURCES))


LINKED = {
    ("LinksTo", True): "links to",
    ("LinksTo", False): "linked from",
    ("RelatesTo", True): "related to",
    ("RelatesTo", False): "related from",
}
"""The words for a link by its relation, and if it goes out."""


def _known_by(shown: Json, look: Look) -> str:
    """Describe the provenance, certainty and use of a memory."""
    use, certainty = shown["use"], shown["certainty"]
    parts = [
        shown["provenance"].replace("_", " "),
        f"certainty {certainty:.2f}" if certainty is not None and shown["level"] == "L1" else "",
        f"said again {count(use['again'], 'time')}" if use["again"] else "",
        f"told {count(use['told'], 'time')}, last {look.ago(use['told_at'])}" if use["told"] else "never told",
        f"used {count(use['used'], 'time')}" if use["used"] else "",
    ]
    return "known  " + " · ".join(clean(part) for part in parts if part)


def shown_in_words(shown: Json, look: Look) -> list[str]:
    """Describe a memory in full: its kind, text, sources, and the memories that cite it."""
    about = [shown["kind"], look.ago(shown["created_at"]), shown["channel"], *(f"#{tag}" for tag in shown["tags"])]
    if shown["curated"]:
        about.append(f"in every envelope, priority {shown['curated']}")
    if not shown["live"]:
        about.append("no longer current")
    lines = [
        look.paint(f"{shown['level']} {clip(shown['title'] or shown['node_id'], look.width - 3)}", BOLD),
        look.paint(" · ".join(clean(part) for part in about), DIM),
        "",
        *look.wrap(shown["text"]),
        "",
    ]
    if known := _known_by(shown, look):
        lines += look.wrap(known)
    if shown["path"]:
        lines.append(look.paint("file   ", DIM) + clean(shown["path"]))
    sources = [turn for turn in shown["evidence"] if turn["node_id"] != shown["node_id"]]
    related = (
        ("replaced by", clean(shown["superseded_by"] or "")),
        ("replaces", _names(shown["supersedes"])),
        ("probably replaced by", _names(shown["later"])),
        ("disputed by", _names(shown["contradicts"])),
        ("from", sources_in_words(sources) if sources else ""),
        ("cited by", _names(shown["cited_by"])),
        *(
            (LINKED[link["relation"], link["out"]], f"{clean(link['node_id'])} {clip(link['title'], look.width - 40)}")
            for link in shown["links"]
        ),
    )
    for name, text in related:
        if text:
            lines += [look.paint(f"{name}  ", DIM) + text]
    return lines if lines[-1] else lines[:-1]


def memories_in_words(memories: Iterable[Json], look: Look) -> list[str]:
    """Describe each memory in one line."""
    listed = list(memories)
    # The channel is a column only where there are several, the state where one does not simply hold.
    names, states = len({m["channel"] for m in listed}) > 1, any(m.get("state") for m in listed)
    columns = ("node", "level", "kind", "when", *(["channel"] * names), *(["state"] * states), "title")
    cells = [{**m, "node": m["node_id"], "when": look.ago(m["created_at"])} for m in listed]
    return table([[one.get(column) or "" for column in columns] for one in cells], look, columns)


def trace_in_words(trace: Json, look: Look) -> list[str]:
    """Describe a trace: each step's time, and each candidate's place in each arm of the search."""
    timings = [f"{step} {ms:.1f} ms" for step, ms in trace["timings_ms"].items()]
    candidates = trace["candidates"]
    arms = list(dict.fromkeys(arm for candidate in candidates for arm in candidate["ranks"]))
    priors = list(dict.fromkeys(prior for candidate in candidates for prior in candidate["priors"]))
    rows = [
        (
            *(str(place), f"{candidate['score']:.3f}", *(arm_in_words(candidate, arm) for arm in arms)),
            *(f"{candidate['priors'].get(prior, 0.0):+.2f}" for prior in priors),
            candidate["unit"] + (f" (linked with {candidate['over']})" if candidate.get("over") else ""),
        )
        for place, candidate in enumerate(candidates[:MOST_CANDIDATES], 1)
    ]
    lines = [*look.wrap("Took: " + ", ".join(timings) + ".")] if timings else []
    columns = ("place", "score", *arms, *priors, "node")
    lines += table(rows, look, columns, right=range(len(columns) - 1)) if rows else []
    if len(candidates) > MOST_CANDIDATES:
        lines.append(f"… and {len(candidates) - MOST_CANDIDATES} more (--json has them)")
    return lines


def arm_in_words(candidate: Json, arm: str) -> str:
    """Return a candidate's rank in this arm of the search, and its score there, as `#3 0.61`."""
    if arm not in candidate["ranks"]:
        return "-"
    score = candidate["scores"].get(arm)
    return f"#{candidate['ranks'][arm]}" + (f" {score:.2f}" if score is not None else "")


def why_not_in_words(why_not: Json, look: Look) -> list[str]:
    """Describe the step at which a memory was dropped."""
    place = f"came in place {why_not['place']}" if why_not["place"] else "was not found"
    return look.wrap(f"{why_not['node_id']} {place}: {why_not['reason']}.")


def _names(node_ids: Sequence[str]) -> str:
    return clean(listing(node_ids, MOST_SOURCES)) if node_ids else ""


NOTHING_FOUND = 4
MOST_TOOLS = 40


def anchor_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of anchor."""
    parser.add_argument("--session", help="the session (the newest of this folder's channel)")
    parser.add_argument("--channel", help="the channel (that of this folder)")


def anchor(options: Namespace, terminal: Terminal) -> int:
    """Print the anchor of a session, or the newest of a channel."""
    answer = ask(terminal, "anchor_get", {"session": options.session, "channel": options.channel})
    found = answer["anchor"]
    terminal.report(answer, anchor_in_words(found, terminal.look) if found else ["No agent left an anchor here."])
    return 0 if found else NOTHING_FOUND


def anchor_in_words(anchor: Json, look: Look) -> list[str]:
    """Describe an anchor: its session, age and content."""
    ended = " (ended)" if anchor["ended_at"] else ""
    head = f"Session {clean(anchor['session_id'])}{ended} in {clean(anchor['channel'])}, {look.ago(anchor['set_at'])}:"
    rows = [("task", anchor["task"]), ("plan", anchor["plan"])]
    rows += [("decided", text) for text in anchor["decisions"]]
    rows.append(("next step", anchor["next_step"]))
    return [*look.wrap(head), *pairs([(name, text) for name, text in rows if text], look)]


def goals_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of goals."""
    parser.add_argument("--session", help="the goals of this session too")
    parser.add_argument("--channel", help="the channel (that of this folder)")
    parser.add_argument("--complete", metavar="GOAL", help="close the goal with this id: it is done")
    parser.add_argument("--abandon", metavar="GOAL", help="close the goal with this id: it is given up")


def goals(options: Namespace, terminal: Terminal) -> int:
    """Print the open threads of a channel, or close one."""
    if closing := options.complete or options.abandon:
        state = "completed" if options.complete else "abandoned"
        closed = ask(terminal, "goal_set", {"goal_id": closing, "state": state, "channel": options.channel})
        terminal.report(closed, [f"{state.capitalize()}: {clean(closed['text'])}"])
        return 0
    params: dict[str, Any] = {"session": options.session, "channel": options.channel}
    answer = ask(terminal, "goals", params)
    terminal.report(answer, goals_in_words(answer, terminal.look))
    return 0


def goals_in_words(answer: Json, look: Look) -> list[str]:
    """List the goals of a session, and the open threads of earlier ones."""
    lines = _listed("Goals of the session:", answer["goals"], look)
    lines += _listed(f"Open threads in {clean(answer['channel'])}:", answer["threads"], look)
    return lines or [f"There are no open threads in {clean(answer['channel'])}."]


def _listed(head: str, goals: Sequence[Json], look: Look) -> list[str]:
    rows = [(goal["goal_id"], goal["state"], look.ago(goal["changed_at"]), goal["text"]) for goal in goals]
    return [head, *table(rows, look, ("goal", "state", "when", "text"))] if rows else []


def tools_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of tools."""
    parser.add_argument("--channel", help="the channel (that of this folder), * for all")


def tools(options: Namespace, terminal: Terminal) -> int:
    """Print how often each tool was called and failed, and how long a call took."""
    answer = ask(terminal, "tools", {"channel": options.channel})
    terminal.report(answer, tools_in_words(answer, terminal.look))
    return 0 if answer["tools"] else NOTHING_FOUND


def tools_in_words(answer: Json, look: Look) -> list[str]:
    """List the tools by project and program, each in a line."""
    uses = answer["tools"][:MOST_TOOLS]
    if not uses:
        return ["No call of a tool is remembered here."]
    # A column in which every row says the same leaves no room for the others.
    told = [key for key in ("channel", "agent") if len({use[key] for use in uses}) > 1] or ["agent"]
    rows = [
        (
            use["tool"],
            f"{use['calls']:,}",
            f"{use['failures']:,}",
            f"{use['median_s']:g} s" if use["median_s"] is not None else "",
            *(use[key] for key in told),
        )
        for use in uses
    ]
    names = {"channel": "project", "agent": "program"}
    heads = ("tool", "calls", "failed", "median", *(names[key] for key in told))
    lines = table(rows, look, heads, right=(1, 2, 3))
    if more := len(answer["tools"]) - len(rows):
        lines.append(f"… and {more:,} more (--json has them)")
    return lines
