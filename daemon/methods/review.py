"""The wire's methods by which a person keeps the memory in order: decay, restore, review."""

from __future__ import annotations

import os
import pwd
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from ...ipc.answers import DecayAnswer, DecisionAnswer, LeakAnswer, ReviewAnswer
from ...ipc.call import Call
from ...ipc.params import Offset
from ...ipc.protocol import Refused
from ...ipc.store_methods import Handler, Name, Params, instant, plain
from ...store import LANDED
from ..clock import utc_now
from ..settings import Settings

if TYPE_CHECKING:
    from ...store import MemoryStore

MOST_FADING = 500
MOST_DECISIONS, MOST_MARKS = 50, 50
LONGEST_TEXT, LONGEST_MARKED = 4000, 1000
LINTING = ("daily", "weekly")
"""The runs that look for secrets."""

RUNS_LOOKED_AT = 20


class DecayParams(Params):
    """The days to look ahead."""

    days: Annotated[int, Field(strict=True, ge=1, le=3650)] = 30


class RestoreParams(Params):
    """The archived memory to bring back."""

    node_id: Name


class ReviewParams(Params):
    """The marks to pass over."""

    offset: Offset = 0


class DecideParams(Params):
    """A person's decision about two memories; `edit` comes with the `text` that holds instead.

    `accept` and `reject` are about a memory that waits, whose id is the `decision`.
    """

    decision: Name
    keep: Literal["newer", "older", "both", "edit", "accept", "reject"]
    text: Annotated[str, Field(max_length=2**16)] = ""
    by: Annotated[str, Field(pattern=r"^[\w.@-]{1,64}$")] | None = None


class ReviewMethods:
    """The methods; all of them block, so they run in the server's threads."""

    def __init__(self, store: MemoryStore, settings: Settings) -> None:
        self._store = store
        self._settings = settings

    def handlers(self) -> dict[str, Handler]:
        """Return the methods by name."""
        return {
            "decay_preview": Handler(DecayParams, self.decay_preview, long=True),
            "restore": Handler(RestoreParams, self.restore, blocking=True, shape=plain),
            "review_list": Handler(ReviewParams, self.review_list, blocking=True),
            "review_decide": Handler(DecideParams, self.review_decide, blocking=True, shape=plain),
        }

    def decay_preview(self, params: DecayParams, call: Call) -> DecayAnswer:
        """Return what would fade within so many days; nothing is changed."""
        from ...pipelines.stages import decay

        now = utc_now()

        def on_progress(done: int) -> None:
            call.raise_if_cancelled()
            call.progress("decay", done)

        found = decay.preview(self._store.decay_inputs(), self._settings.pipelines.decay, now, params.days, on_progress)
        return {
            "days": params.days,
            "most_a_night": found.most_per_run,
            "total": len(found.fading),
            "fading": [
                {
                    "node_id": confidence.memory.node_id,
                    "kind": confidence.memory.kind.value,
                    "title": confidence.memory.title[:200],
                    "channel": confidence.memory.channel,
                    "confidence": round(confidence.at(now), 3),
                    "fades_at": instant(at),
                }
                for at, confidence in found.fading[:MOST_FADING]
            ],
        }

    def restore(self, params: RestoreParams, call: Call) -> Any:
        """Bring an archived memory back."""
        return self._store.restore(params.node_id)

    def review_list(self, params: ReviewParams, call: Call) -> ReviewAnswer:
        """Return what waits, a page of the marks, and the secrets that a dream found and may not take out."""
        waiting = self._store.decisions()
        marked = self._store.marks(params.offset, MOST_MARKS)
        claims = [plain(claim) for claim in self._store.waiting()[:MOST_DECISIONS]]
        for claim in claims:
            claim["text"] = claim["text"][:LONGEST_TEXT]
        return {
            "decisions": [_cut(plain(decision), LONGEST_TEXT) for decision in waiting[:MOST_DECISIONS]],
            "total": len(waiting),
            "marks": [_cut(plain(mark), LONGEST_MARKED) for mark in marked.marks],
            "marks_total": marked.total,
            "waiting": claims,
            "leaks": self._leaks(),
        }

    def review_decide(self, params: DecideParams, call: Call) -> Any:
        """Settle one."""
        if (params.keep == "edit") != bool(params.text.strip()):
            raise Refused(
                "`text` is required with keep=edit and not allowed otherwise.", "`dreamctl review ID --edit TEXT`."
            )
        if params.keep == "accept":
            return self._store.accept(params.decision, params.by or _login())
        if params.keep == "reject":
            return self._store.reject(params.decision)
        return self._store.decide(params.decision, params.keep, params.by or _login(), params.text)

    def _leaks(self) -> list[LeakAnswer]:
        """Return the files that the latest dream named and that still hold what looks like a secret."""
        runs = self._store.runs(RUNS_LOOKED_AT, kinds=LINTING, states=LANDED)
        named = next((run.summary["leaks"] for run in runs if "leaks" in run.summary), ())
        return [
            {"node_id": leak.node_id, "path": leak.path, "kinds": ", ".join(leak.places)}
            for leak in self._store.leaks(named)
        ]


def _cut(answer: DecisionAnswer, longest: int) -> DecisionAnswer:
    """Return a decision with its texts cut."""
    for side in (answer["older"], answer["newer"]):
        side["text"] = side["text"][:longest]
    return answer


def _login() -> str:
    """Return the login of the daemon's owner: the only user who may ask it anything."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
