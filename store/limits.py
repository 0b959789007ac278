"""Tuned numbers that several modules of the store share, each with where it was measured or what it follows from."""

from __future__ import annotations

from typing import Final

LONGEST_QUESTION_CHARS: Final = 300
"""A longer text is pasted rather than asked: its dates are not asked about, its words not respelled."""

LONGEST_STATEMENT_CHARS: Final = 1_000
"""Characters of a statement that are compared with another; a longer text is a document."""

MOST_STATEMENT_SENTENCES: Final = 4
"""Sentences of a statement that are compared with those of another."""

FEWEST_WORDS: Final = 5
"""A piece of fewer words is joined to its neighbour: "jooq." says nothing without the reason next to it."""

NEIGHBOURS: Final = 2
"""The turns on either side whose words help to find a turn by keyword.

Two instead of one: evidence recall@10 by keyword alone .739 against .722 (LoCoMo, five conversations).
"""

CANDIDATES_READ: Final = 40
"""Candidates whose words are read for the confidence of an answer. The calibration was fitted with this number."""

CANDIDATES_BESIDE: Final = 15
"""Of the best candidates the turns right before and after are read too: an answer often follows a question.

The calibration was fitted with this number.
"""

LEAST_SHARE: Final = 0.02
"""A sentence is shown if it has at least this share of the relevance of the best one. MCP ends its hits there too."""

LONG_CHARS: Final = 2_000
"""A longer text is returned by its sections; `show` has the rest."""

LONGEST_CURATED: Final = 280
"""Characters of a memory that is in every envelope: a rule of two sentences, some 70 tokens of a budget of 500."""

LONGEST_CHAIN: Final = 16
"""Successors of successors that are followed, to the one that holds now; so deep chains are edits by hand."""

STATED_CERTAINTY: Final = 0.95
INFERRED_CERTAINTY: Final = 0.70
"""The certainty of a person's statement, and of an agent's inference: DESIGN, "Reference values"."""

TRUST_GAIN: Final = {"used": 0.05, "useful": 0.05, "not_useful": -0.10, "rejected": -0.02}
"""The change of the trust in a memory by each piece of feedback on it: DESIGN, "Reference values"."""

MOST_TRUST: Final = 2.0
"""The trust in a memory at most; it is 1 without feedback."""

SESSION_TTL_S: Final = 3600.0
"""A session that was not touched for so long is over, though its end was not noted: DESIGN, "Reference values"."""
