"""Past questions and the use of their answers: what the tests of dreams are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from ..background.relevance_feedback import RelevanceFeedback, ShownMemory
from ..changes.repeats import Once
from ..index.catalog import Catalog
from ..index.scope import EVERYTHING
from ..ledger import records
from ..ledger.ledger import Ledger
from ..ledger.questions import forget_questions
from ..model import Hit, NewTurn, NodeId, Slot, Verdict
from ..search.fetch import evidence_of
from ..search.gathering import Ranking
from ..writer.pending import PendingFiles
from ..writer.writer import Planned, Writer
from .switches import Switches
from .visibility import READ_YOUR_WRITES_S, Visibility


class Feedback:
    """Hands questions, answers and judgements to the background worker that keeps them."""

    def __init__(
        self,
        relevance: RelevanceFeedback,
        catalog: Catalog,
        ledger: Ledger,
        writer: Writer,
        switches: Switches,
        visibility: Visibility,
        now: Callable[[], datetime],
        *,
        keeps_questions: bool,
        on_judged: Callable[[], object] = lambda: None,
    ) -> None:
        self._relevance = relevance
        self._catalog = catalog
        self._ledger = ledger
        self._writer = writer
        self._switches = switches
        self._visibility = visibility
        self._now = now
        self._keeps_questions = keeps_questions
        self._on_judged = on_judged
        self.on_purge: Callable[[], None] = lambda: None
        """Called when every question is to be forgotten."""

    def answered(
        self,
        query: str,
        channel: str | None,
        session: NodeId | None,
        ranking: Ranking,
        shown: Sequence[ShownMemory],
    ) -> None:
        """Have a question and its answer kept, where questions are; costs the caller a place in a queue."""
        if self._keeps_questions and not self._switches.paused and channel not in self._switches.channels_off:
            self._relevance.on_answer(query, channel, session, ranking, shown, self._now())

    def looked_up(self, node_id: NodeId) -> None:
        """Count a lookup by id as positive feedback for the answer that listed the node."""
        self._relevance.on_shown(node_id, self._now())

    def said(self, session_id: NodeId, channel: str, turns: Sequence[NewTurn]) -> None:
        """Compare what an assistant says with the answers that were shown before."""
        self._relevance.on_turns(session_id, channel, turns, self._now())

    def feedback(self, node_id: NodeId, verdict: Verdict, idempotency_key: str | None = None) -> None:
        """Keep a judgement of a memory that was shown, once for each `idempotency_key`. Raises NotFound."""
        node = self._visibility.node(node_id)
        now = self._now()
        judgement = records.record_feedback(node_id, verdict.replace("-", "_"), now)
        if idempotency_key is None:
            self._writer.write(judgement).result()
        else:
            plan = Once(
                lambda files: Planned("", writes=(judgement,)),
                self._ledger,
                "feedback",
                idempotency_key,
                now,
                write=str,
                read=str,
            )
            self._writer.submit(plan).result()
            if plan.was_repeated:
                return
        self._on_judged()
        gold = [turn.node_id for turn in evidence_of([node], self._catalog, EVERYTHING)[node_id]] or [node_id]
        self._relevance.on_verdict(node_id, gold, verdict == "useful")

    def purge_questions(self) -> int:
        """Remove every question that was kept, for good; return how many there were."""
        self.on_purge()
        self._relevance.forget()
        self._relevance.settle(READ_YOUR_WRITES_S)

        def erase(files: PendingFiles) -> Planned[int]:
            held = len(self._ledger.asked())
            self._ledger.erase(forget_questions())
            return Planned(held)

        return self._writer.submit(erase).result()

    def purge_if_off(self) -> None:
        """Remove the questions that are still kept where the settings say that none are."""
        if not self._keeps_questions and self._ledger.asked() and not self._ledger.is_copy:
            self.purge_questions()


def shown_hit(hit: Hit) -> ShownMemory:
    """Return a hit as it was shown."""
    return ShownMemory(hit.node_id, hit.text, _gold(hit))


def shown_slot(slot: Slot) -> ShownMemory:
    """Return a line of an envelope as it was shown, without its head."""
    return ShownMemory(slot.node_id, slot.words, _gold(slot))


def _gold(shown: Hit | Slot) -> tuple[NodeId, ...]:
    return tuple(turn.node_id for turn in shown.evidence) or (shown.node_id,)
