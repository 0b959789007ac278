"""The weights by which is ranked: the shipped ones, or those that a dream fitted to the person's own questions."""

from __future__ import annotations

from ...keep.ledger.ledger import Ledger
from ...keep.ledger.ranking import standing
from .scorer import SCORER, weights_in_use
from .search import Search


class RankingWeights:
    """Gives search the weights that the ledger says are in use."""

    def __init__(self, ledger: Ledger, search: Search) -> None:
        self._ledger = ledger
        self._search = search
        self.questions = 0
        """The number of questions that the weights were fitted to; 0 for the shipped ones."""

    def read(self) -> None:
        """Read which weights are in use, after every run that may have changed it."""
        fitted = standing(self._ledger.rankings(), SCORER)
        self._search.weights = weights = weights_in_use(fitted)
        self.questions = fitted.questions if fitted is not None and weights is fitted.weights else 0
