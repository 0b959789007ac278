"""The memory as it is kept and found. Other rooms use the names in `__all__`, and the modules of values beside this.

Each name is loaded when it is first asked for (PEP 562): `dreamd.store.settings` lies on the way of every `dreamctl`
command, which needs neither SQLite nor numpy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .changes.decisions import Decision
    from .changes.intake import Observed
    from .changes.purge_plan import Selection
    from .changes.runs import AppliedRun, SkippedAction, new_run_id
    from .find.embedding.embedding import Embedder, embedder_for
    from .keep.deadline import within
    from .keep.files.vault import is_digest, is_kept
    from .keep.ledger.records import LANDED, LINK, Run
    from .keep.ledger.salvage import discard as discard_ledgers
    from .keep.ledger.salvage import salvage as salvage_ledgers
    from .keep.okf.document import parse as parse_document
    from .keep.okf.notes import date_of as note_date
    from .keep.okf.notes import has_unreadable_date, in_calendar
    from .keep.okf.notes import title_of as note_title
    from .keep.okf.session import session_id
    from .keep.redaction import bounds_of_secret, redact
    from .keep.unwritable import is_full, may_pass
    from .memory import MemoryStore
    from .offline import check_closed
    from .operations.decay_inputs import DecayInputs
    from .paths import StorePaths
    from .regular_files import beginning, opened
    from .text.chunking import estimate_tokens
    from .text.controls import without_controls
    from .text.dates import find_asked
    from .text.fence import fenced, unmarked, unmarked_lines, without_element, without_recalled
    from .text.replies import read_reply
    from .text.vocabulary import MONTH_NUMBERS
    from .working.awaiting import Waiting
    from .working.handed import HandedSession

__all__ = [
    "LANDED",
    "LINK",
    "MONTH_NUMBERS",
    "AppliedRun",
    "DecayInputs",
    "Decision",
    "Embedder",
    "HandedSession",
    "MemoryStore",
    "Observed",
    "Run",
    "Selection",
    "SkippedAction",
    "StorePaths",
    "Waiting",
    "beginning",
    "bounds_of_secret",
    "check_closed",
    "discard_ledgers",
    "embedder_for",
    "estimate_tokens",
    "fenced",
    "find_asked",
    "has_unreadable_date",
    "in_calendar",
    "is_digest",
    "is_full",
    "is_kept",
    "may_pass",
    "new_run_id",
    "note_date",
    "note_title",
    "opened",
    "parse_document",
    "read_reply",
    "redact",
    "salvage_ledgers",
    "session_id",
    "unmarked",
    "unmarked_lines",
    "within",
    "without_controls",
    "without_element",
    "without_recalled",
]

_HOMES = {
    "HandedSession": "working.handed",
    "LANDED": "keep.ledger.records",
    "LINK": "keep.ledger.records",
    "MONTH_NUMBERS": "text.vocabulary",
    "AppliedRun": "changes.runs",
    "DecayInputs": "operations.decay_inputs",
    "Decision": "changes.decisions",
    "Embedder": "find.embedding.embedding",
    "MemoryStore": "memory",
    "Observed": "changes.intake",
    "Selection": "changes.purge_plan",
    "SkippedAction": "changes.runs",
    "Run": "keep.ledger.records",
    "StorePaths": "paths",
    "Waiting": "working.awaiting",
    "beginning": "regular_files",
    "check_closed": "offline",
    "discard_ledgers": "keep.ledger.salvage:discard",
    "embedder_for": "find.embedding.embedding",
    "estimate_tokens": "text.chunking",
    "fenced": "text.fence",
    "find_asked": "text.dates",
    "in_calendar": "keep.okf.notes",
    "has_unreadable_date": "keep.okf.notes",
    "is_digest": "keep.files.vault",
    "is_full": "keep.unwritable",
    "is_kept": "keep.files.vault",
    "may_pass": "keep.unwritable",
    "new_run_id": "changes.runs",
    "note_date": "keep.okf.notes:date_of",
    "note_title": "keep.okf.notes:title_of",
    "opened": "regular_files",
    "parse_document": "keep.okf.document:parse",
    "read_reply": "text.replies",
    "bounds_of_secret": "keep.redaction",
    "redact": "keep.redaction",
    "salvage_ledgers": "keep.ledger.salvage:salvage",
    "session_id": "keep.okf.session",
    "unmarked": "text.fence",
    "unmarked_lines": "text.fence",
    "within": "keep.deadline",
    "without_controls": "text.controls",
    "without_element": "text.fence",
    "without_recalled": "text.fence",
}
"""The module of each name, with its name there after a colon where that is another."""


def __getattr__(name: str) -> Any:
    """Load an exported name from its home, once."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module, _, original = _HOMES[name].partition(":")
    value = globals()[name] = getattr(import_module(f".{module}", __name__), original or name)
    return value
