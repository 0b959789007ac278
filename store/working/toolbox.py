"""Tools of agents: how often each was called and failed, and which of a long list serve a request.

Both are read from the notes of calls in the newest turns; there is no other record of them.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from statistics import median
from threading import Lock
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..core import Core
from ..index.catalog import SaidTurn
from ..model import NodeId
from ..results import ChosenTool, OfferedTool, ToolUse
from ..roles import Role
from ..text import acts
from ..text.words import content_stems

# The newest turns that are read: some 4 µs each.
MOST_TURNS: Final = 20_000

# Requests whose mean stands for requests at large, those of one tool that are compared, and vectors that are held.
MOST_REQUESTS: Final = 64
MOST_SERVED: Final = 8
MOST_VECTORS: Final = 4096

# Fewer requests say little of requests at large.
FEWEST_REQUESTS: Final = 8
LONGEST_REQUEST: Final = 600

# The weights, beside a cosine, of words in common and of the likeness of an earlier request that the tool served; tuned
# on the tools of work (tests/bench/tool_choice.py), where a tool without a history must not lose to one with any.
WORDS: Final = 0.2
SERVED: Final = 0.6
# Two requests below the first cosine are of unlike matters, above the second of one kind.
UNLIKE: Final = 0.1
LIKE: Final = 0.3

# Calls of a command from which it has a row of its own.
FEWEST_CALLS: Final = 3

Vectors = NDArray[np.float32]


class Toolbox:
    """Reads the calls of tools. Every method may be called from any thread."""

    def __init__(self, core: Core) -> None:
        self._catalog = core.catalog
        self._embedder = core.embedder
        self._lock = Lock()
        self._held: OrderedDict[str, Vectors] = OrderedDict()

    # ---- statistics

    def uses(self, channel: str | None) -> list[ToolUse]:
        """Return the uses of each tool by project and program, the most used first; of the shell also by its commands.

        The time of a call is that between its two notes, so it counts where a result was kept, in whole sessions.
        """
        calls: dict[tuple[str, str, str], list[tuple[bool, float | None]]] = defaultdict(list)
        agents: dict[NodeId, str] = {}
        for session_id, turns in _sessions(self._catalog.said_lately(channel, MOST_TURNS)):
            if session_id not in agents:
                head = self._catalog.session_head(session_id)
                agents[session_id] = (head.agent_id if head else None) or ""
            at = {turn.ordinal: turn.at for turn in turns}
            for act in acts.acts_in((turn.ordinal, turn.text) for turn in turns):
                began, ended = at[act.at], at.get(act.ended_at) if act.ended_at is not None else None
                seconds = (ended - began).total_seconds() if began and ended else None
                if act.tool in acts.NO_TOOLS:
                    continue
                row = turns[0].channel, agents[session_id]
                calls[(act.tool, *row)].append((act.failed, seconds))
                if act.tool == acts.SHELL and acts.is_of_project(command := acts.command_key(act.words)):
                    calls[(f"{acts.SHELL}: {command}", *row)].append((act.failed, seconds))
        found = [
            ToolUse(tool, channel, agent, len(made), sum(failed for failed, _ in made), _median(made))
            for (tool, channel, agent), made in calls.items()
            if ": " not in tool or len(made) >= FEWEST_CALLS
        ]
        return sorted(found, key=lambda use: (-use.calls, use.tool, use.channel, use.agent))

    # ---- choice

    def select(self, request: str, offered: Sequence[OfferedTool], count: int, channel: str) -> list[ChosenTool]:
        """Return the tools that serve a request, best first: by meaning, by words, and by what served the like before.

        What served before counts in every channel; its words are told in their own alone. Raises ModelUnavailable
        without an embedding model.
        """
        requests, served = self._history({tool.name for tool in offered})
        usual = np.mean([self._of_query(one) for one in requests], axis=0) if len(requests) >= FEWEST_REQUESTS else 0
        asked = _unit(self._of_query(request) - usual)
        scores = self._likeness(asked, offered) + WORDS * _words_shared(request, offered)
        like: dict[str, str] = {}
        for place, tool in enumerate(offered):
            near = (
                (float(asked @ _unit(self._of_query(text) - usual)), text, said_in)
                for text, said_in in served[tool.name]
            )
            likeness, earlier, said_in = max(near, default=(0.0, "", ""))
            scores[place] += SERVED * max(0.0, likeness - UNLIKE)
            if likeness > LIKE and said_in == channel:
                like[tool.name] = earlier
        best = sorted(range(len(offered)), key=lambda place: (-scores[place], offered[place].name))[:count]
        named = [(offered[place].name, round(float(scores[place]), 3)) for place in best]
        return [ChosenTool(name, score, like.get(name, "")) for name, score in named]

    def _likeness(self, asked: Vectors, offered: Sequence[OfferedTool]) -> Vectors:
        """Return the cosine of a request with each tool's name and description.

        Requests have much in common that no description has, and descriptions too: of both their mean is taken away.
        """
        names = self._of_passages([_spaced(tool.name) for tool in offered])
        says = self._of_passages([tool.description or _spaced(tool.name) for tool in offered])
        tools = _unit(names + says)
        usual = tools.mean(axis=0) if len(offered) > 1 else 0
        likeness: Vectors = _unit(tools - usual) @ asked
        return likeness

    def _history(self, offered: set[str]) -> tuple[list[str], Mapping[str, list[tuple[str, str]]]]:
        """Return the newest requests, and of each offered tool those after which it was called and worked.

        These come with their channels.
        """
        requests: list[str] = []
        served: dict[str, list[tuple[str, str]]] = {name: [] for name in offered}
        for _, turns in _sessions(self._catalog.said_lately(None, MOST_TURNS)):
            asked = [turn for turn in turns if turn.role == Role.USER and len(turn.text) <= LONGEST_REQUEST]
            requests += [turn.text for turn in asked]
            for act in acts.acts_in((turn.ordinal, turn.text) for turn in turns):
                # `mcp__github__create_issue` is a program's name of the tool `create_issue` of a server.
                name = act.tool if act.tool in offered else act.tool.rpartition("__")[2]
                before = next((turn for turn in reversed(asked) if turn.ordinal < act.at), None)
                if name in offered and before and not act.failed and len(served[name]) < MOST_SERVED:
                    served[name].append((before.text, before.channel))
        return requests[:MOST_REQUESTS], served

    # ---- vectors

    def forget(self) -> None:
        """Drop the vectors of requests, before a purge erases these."""
        with self._lock:
            self._held.clear()

    def _of_query(self, text: str) -> Vectors:
        held = self._get(f"q{text}")
        if held is None:
            held = np.asarray(self._embedder.embed_query(text))
            self._keep({f"q{text}": held})
        return held

    def _of_passages(self, texts: Sequence[str]) -> Vectors:
        new = [text for text in dict.fromkeys(texts) if self._get(f"p{text}") is None]
        made = dict(zip(new, self._embedder.embed_passages(new), strict=True)) if new else {}
        rows = [made[text] if text in made else self._get(f"p{text}") for text in texts]
        self._keep({f"p{text}": np.asarray(vector) for text, vector in made.items()})
        return np.stack([np.asarray(row) for row in rows])

    def _get(self, key: str) -> Vectors | None:
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
            return self._held.get(key)

    def _keep(self, vectors: Mapping[str, Vectors]) -> None:
        with self._lock:
            self._held.update(vectors)
            while len(self._held) > MOST_VECTORS:
                self._held.popitem(last=False)


def _sessions(turns: Sequence[SaidTurn]) -> Iterator[tuple[NodeId, list[SaidTurn]]]:
    """Yield the sessions of some turns, the newest first, each with its turns in order."""
    newest: dict[NodeId, int] = {}
    for place, turn in enumerate(turns):
        newest.setdefault(turn.session_id, place)
    ordered = sorted(turns, key=lambda turn: (newest[turn.session_id], turn.ordinal))
    for session_id, said in groupby(ordered, key=lambda turn: turn.session_id):
        yield session_id, list(said)


def _words_shared(request: str, offered: Sequence[OfferedTool]) -> Vectors:
    """Return how much each tool has of the request's words, 0 to 1: a word of many tools counts for little."""
    words = [content_stems(f"{_spaced(tool.name)} {tool.description}") for tool in offered]
    wanted = set(content_stems(request))
    shares: dict[str, int] = defaultdict(int)
    for stem in (stem for stems in words for stem in set(stems)):
        shares[stem] += 1
    return np.array([min(1.0, sum(1 / shares[stem] for stem in wanted & set(stems))) for stems in words], np.float32)


def _median(made: Sequence[tuple[bool, float | None]]) -> float | None:
    # A call that fails at once says nothing of the time that its work takes.
    known = [seconds for failed, seconds in made if seconds is not None and seconds >= 0 and not failed]
    return round(median(known), 1) if known else None


def _unit(vectors: Vectors) -> Vectors:
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    unit: Vectors = (vectors / np.maximum(lengths, 1e-9)).astype(np.float32)
    return unit


def _spaced(name: str) -> str:
    return " ".join(name.replace("_", " ").replace("-", " ").split())
