"""The acts of the page: each calls one method of the daemon, and reports its outcome in a sentence."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from ...ipc.protocol import Json
from ..formatting import count
from .guard import PageRequest
from .wording import address, project, thing_address

DECIDED = {
    "newer": "The newer one holds.",
    "older": "The older one holds.",
    "both": "Both hold.",
    "edit": "Your wording holds.",
    "accept": "It holds from now on.",
    "reject": "It is forgotten.",
}


async def remember(asked: PageRequest) -> Json:
    """Keep a memory."""
    kept = await asked.call(
        "remember",
        text=asked.word("text"),
        kind=asked.word("kind", "note"),
        channel=asked.word("channel") or None,
        always=asked.word("always") == "1" or None,
    )
    words = "Remembered" if kept["novelty"] == "new" else "That was remembered already"
    hidden = f" {count(kept['redacted'], 'secret')} left out of it." if kept["redacted"] else ""
    return {"words": f"{words}, in {project(kept['channel'])}.{hidden}", "place": f"/memory/{kept['node_id']}"}


async def edit(asked: PageRequest) -> Json:
    """Change the words, the title or the kind of a memory."""
    node_id = asked.word("node_id")
    done = await asked.call(
        "edit",
        node_id=node_id,
        text=asked.word("text"),
        title=asked.word("title") or None,
        kind=asked.word("kind") or None,
        if_version=asked.word("if_version") or None,
    )
    hidden = f" {count(done['redacted'], 'secret')} left out of it." if done["redacted"] else ""
    words = f"It is changed.{hidden}" if done["run_id"] else "Nothing was changed."
    return {"words": words, "undo": done["run_id"], "at": address(done["node_id"])}


async def always(asked: PageRequest) -> Json:
    """Have a memory told in every answer to an agent, or no longer."""
    is_on = asked.word("always") == "1"
    done = await asked.call("edit", node_id=asked.word("node_id"), always=is_on)
    words = (
        "Pinned: agents of the project get it at the start of every session."
        if is_on
        else "No longer pinned: agents get it where it answers."
    )
    return {"words": words, "undo": done["run_id"]}


async def forget(asked: PageRequest) -> Json:
    """Take a memory back."""
    gone = await asked.call("forget", node_id=asked.word("node_id"), reason=asked.word("reason"))
    also = f" {count(len(gone['also']), 'other')} rested on it alone, and went with it." if gone["also"] else ""
    return {"words": f"It is forgotten.{also}", "undo": gone["run_id"]}


async def restore(asked: PageRequest) -> Json:
    """Bring a memory back."""
    back = await asked.call("restore", node_id=asked.word("node_id"))
    beside = " What had taken its place holds as well." if back["beside"] else ""
    return {"words": f"It is back.{beside}", "undo": back["run_id"]}


async def undo(asked: PageRequest) -> Json:
    """Undo a run, or its changes of some memories."""
    run_id, items = asked.word("run_id"), asked.lists.get("item", [])
    done = await asked.call("undo", run_id=run_id, items=items or None)
    if done["already"]:
        return {"words": "That was undone before; nothing was changed."}
    parts = [count(done["restored"], "file") + " as before"] if done["restored"] else []
    parts += [count(done["turns"], "turn") + " found again"] if done["turns"] else []
    words = f"Undone: {_named(asked, parts)}." if parts else "There was nothing left to undo."
    return {
        "words": words,
        "redo": run_id if parts else None,
        "parts": items,
        "what": asked.word("what"),
        **_left(done),
    }


async def redo(asked: PageRequest) -> Json:
    """Do an undone run again, or its changes of some memories."""
    run_id, items = asked.word("run_id"), asked.lists.get("item", [])
    done = await asked.call("redo", run_id=run_id, items=items or None)
    parts = [count(done["redone"], "file")] if done["redone"] else []
    parts += [count(done["turns"], "turn")] if done["turns"] else []
    words = f"Applied again: {_named(asked, parts)}." if parts else "There was nothing to apply again."
    return {"words": words, **_left(done)}


def _named(asked: PageRequest, parts: list[str]) -> str:
    """Return the subject of an undo or its opposite, as the page that asked for it calls it, and its amount."""
    what = asked.word("what")
    amount = ", ".join(parts)
    return amount if not what else f"“{what}”" if asked.lists.get("item") else f"{what} ({amount})"


def _left(done: Json) -> Json:
    left = [f"{one['path']}: {one['reason']}" for one in done["conflicts"]]
    return {"left": left, "failed": bool(left)}


async def decide(asked: PageRequest) -> Json:
    """Carry out a decision of the review, or take a mark back."""
    keep = asked.word("keep")
    text = asked.word("text") if keep == "edit" else None
    done = await asked.call("review_decide", decision=asked.word("decision"), keep=keep, text=text)
    words = "The mark is taken back: both hold." if asked.word("mark") else DECIDED.get(keep, "Done.")
    return {"words": words, "undo": done["run_id"]}


async def tag(asked: PageRequest) -> Json:
    """Add tags to a memory, and take some away."""
    added = [one.strip() for one in asked.word("add").split(",") if one.strip()]
    removed = asked.lists.get("remove", [])
    done = await asked.call("tag", node_id=asked.word("node_id"), add=added, remove=removed)
    return {"words": "The tags are changed." if done["run_id"] else "It had these tags.", "undo": done["run_id"]}


async def feedback(asked: PageRequest) -> Json:
    """Note whether a memory was of use."""
    await asked.call("feedback", node_id=asked.word("node_id"), verdict=asked.word("verdict"))
    return {"words": "Noted. It counts when answers are put in order, and before it would fade."}


async def purge(asked: PageRequest) -> Json:
    """Erase for good the content that a person has seen and confirmed."""
    node_id, matching = asked.word("node_id"), asked.word("matching")
    if asked.word("sure") != "yes":
        return {"words": "Nothing was erased: the box that says so was not ticked.", "failed": True}
    named: Json = {"nodes": [node_id]} if node_id else {"matching": matching}
    gone = await asked.call("purge", **named)
    amounts = [("session", gone["sessions"]), ("turn", gone["turns"]), ("secret", gone["secrets"])]
    listed = [count(amount, noun) for noun, amount in amounts if amount]
    listed += [count(gone["memories"], "memory", "memories")] if gone["memories"] else []
    what = asked.word("what")
    amount = ", ".join(listed)
    words = f"Erased for good: {f'{what} ({amount})' if what else amount}." if listed else "There was nothing to erase."
    left = [*gone["traces"], *gone["out_of_reach"]]
    return {"words": words, "left": left, "failed": bool(gone["traces"]), "at": asked.word("onward", "/search")}


async def merge(asked: PageRequest) -> Json:
    """Make one page of two of the same person or thing."""
    other = asked.word("other")
    found = await asked.call("about", name=other, channel=asked.word("channel"))
    pages = [one["node_id"] for one in found["entities"] if one["channel"] == asked.word("channel")]
    if not pages:
        return {"words": f"Nothing of the name {other} has a page in this project.", "failed": True}
    done = await asked.call("entity_merge", node_id=asked.word("node_id"), other=pages[0])
    return {
        "words": f"{other} is {done['name']} from now on.",
        "undo": done["run_id"],
        "at": thing_address(done["name"]),
    }


async def split(asked: PageRequest) -> Json:
    """Give some names of a page one of their own."""
    names = asked.lists.get("names", [])
    if not names:
        return {"words": "No name was ticked.", "failed": True}
    done = await asked.call("entity_split", node_id=asked.word("node_id"), names=names)
    return {"words": f"{' and '.join(names)} is another now.", "undo": done["run_id"]}


async def deny(asked: PageRequest) -> Json:
    """Take a relation that is not so off a page."""
    done = await asked.call("entity_deny", node_id=asked.word("node_id"), relation=asked.word("relation"))
    return {"words": f"Taken off: {asked.word('relation')}.", "undo": done["run_id"]}


async def close_thread(asked: PageRequest) -> Json:
    """Close an open thread."""
    done = await asked.call(
        "goal_set", goal_id=asked.word("goal_id"), state=asked.word("state"), channel=asked.word("channel")
    )
    return {"words": f"Closed: {done['text']}"}


async def backup(asked: PageRequest) -> Json:
    """Back the memory up into a file of this machine."""
    done = await asked.call("backup", path=asked.word("path"))
    size_mb = done["size_bytes"] / 1e6
    return {"words": f"Backed up {count(done['files'], 'file')} into {done['path']} ({size_mb:.1f} MB), and read back."}


async def hand_over(asked: PageRequest) -> Json:
    """Write one page of a project for another person."""
    done = await asked.call("export", path=asked.word("path"), form="handover", channel=asked.word("channel"))
    return {"words": f"Written: {count(done['memories'], 'line')} in {done['path']}.", "file": done["path"]}


async def dream(asked: PageRequest) -> Json:
    """Start a dream."""
    await asked.call("dream", kind=asked.word("kind", "daily"))
    return {"words": "A dream has begun. It gives way to agents at work, and is listed here when it is over."}


async def cancel_dream(asked: PageRequest) -> Json:
    """End the dream under way."""
    await asked.call("dream_cancel")
    return {"words": "The dream is cancelled; nothing was changed."}


async def learning(asked: PageRequest) -> Json:
    """Switch all learning off or on, or that of a project."""
    is_on = asked.word("on") == "1"
    if channel := asked.word("channel"):
        await asked.call("channel", name=channel, learning=is_on)
        return {"words": f"Learning in {project(channel)} is {'on' if is_on else 'off'}."}
    await asked.call("resume" if is_on else "pause")
    return {"words": "Learning goes on." if is_on else "Learning is paused."}


Act = Callable[[PageRequest], Awaitable[Json]]
ACTS: Mapping[str, Act] = {
    "remember": remember,
    "edit": edit,
    "always": always,
    "forget": forget,
    "restore": restore,
    "undo": undo,
    "redo": redo,
    "decide": decide,
    "tag": tag,
    "feedback": feedback,
    "purge": purge,
    "merge": merge,
    "split": split,
    "deny": deny,
    "close-thread": close_thread,
    "backup": backup,
    "hand-over": hand_over,
    "dream": dream,
    "cancel-dream": cancel_dream,
    "learning": learning,
}
