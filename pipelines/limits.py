"""Tuned numbers that several modules of the dreams share, each with the place where it was measured."""

from __future__ import annotations

# Cosine from which two facts may have the same subject; random facts of one conversation lie around .2 (LoCoMo).
#
# Drift supersedes no fact below it, and the gate refuses to.
SAME_SUBJECT = 0.3

# The share of the known facts that a run may supersede, and the number that it always may.
#
# A person changes their mind about a few things a day; an imported archive holds the changes of months at once.
SUPERSEDED_SHARE, SUPERSEDED_AT_LEAST = 0.1, 20

# The largest share of scenarios and profiles that a run may remove: they can be made again from their sources.
PAGES_SHARE, PAGES_AT_LEAST = 0.2, 10

# Pages that one step archives, below the number that the gate allows a run.
MOST_PAGES_ARCHIVED = PAGES_AT_LEAST - 2

# Smallest worth of a turn that only a language model may keep, and of a further passage of a kept reply: the judge
# alone keeps turns from .5 (`extract.facts`).
NEARLY_WORTH = 0.2


def most_superseded(known: int) -> int:
    """Return the number of facts that a run may supersede of those known before it."""
    return max(SUPERSEDED_AT_LEAST, int(SUPERSEDED_SHARE * known))
