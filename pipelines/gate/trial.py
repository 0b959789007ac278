"""A trial: a stage's actions in the overlay of the shadow index, any of which can be taken back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from ...store.model import Action, NodeId
from .probes import Score
from .shadow_index import ShadowIndex


class Trial:
    """Overlays actions once begun. `kept` are those that are not taken back."""

    def __init__(self, shadow: ShadowIndex, actions: Sequence[Action]) -> None:
        self.kept = list(actions)
        self._shadow = shadow
        self._proposed = len(actions)
        self._before = {action.path: shadow.read(action.path) for action in actions}

    def begin(self, on_progress: Callable[[int, int], None]) -> bool:
        """Overlay the actions; return False if nothing in their files, before or after, may answer a question."""
        files = {action.path: action.content for action in self.kept}
        answered = self._shadow.answers(files)
        self._shadow.overlay(files, on_progress)
        return answered or self._shadow.answers(files)

    def behind(self, worse: Iterable[tuple[Score, Score]]) -> list[Action]:
        """Return the kept actions that may stand behind worse answers, [] if some answer has none behind it.

        Those are the actions on what an answer shows now and did not, or showed and does not, and on what cites it;
        and every action that names the node of one of them, as what supersedes names what is superseded.
        """
        cited = {action.node_id: {action.node_id, *self._shadow.cites(action.node_id)} for action in self.kept}
        found = set[NodeId]()
        for before, after in worse:
            changed = before.shown ^ after.shown
            here = {node_id for node_id, cites in cited.items() if cites & changed}
            if not here:
                return []
            found |= here
        return self._with_dependents(found)

    def _with_dependents(self, found: set[NodeId]) -> list[Action]:
        """Return the actions on these nodes and, transitively, those whose files name one of them."""
        behind: dict[str, Action] = {}
        news = found
        while news:
            named = [node_id.encode() for node_id in news]
            more = [
                action
                for action in self.kept
                if action.path not in behind
                and (action.node_id in news or any(name in (action.content or b"") for name in named))
            ]
            behind |= {action.path: action for action in more}
            news = {action.node_id for action in more} - news
        return list(behind.values())

    def share_left_out(self, with_these: Sequence[Action]) -> float:
        """Return the share of the proposed actions that is left out once these are taken back too, 0 to 1."""
        return (self._proposed - len(self.kept) + len(with_these)) / self._proposed

    def take_back(self, actions: Collection[Action]) -> None:
        """Take some of the kept actions out of the overlay."""
        paths = {action.path for action in actions}
        self._shadow.overlay({path: self._before[path] for path in paths})
        self.kept = [action for action in self.kept if action.path not in paths]
