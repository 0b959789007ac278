"""The memory as it is kept and found. Other rooms use the names in `__all__`, and the modules of values beside this.

Each name is loaded when it is first asked for (PEP 562): `dreamd.store.settings` lies on the way of every `dreamctl`
command, which needs neither SQLite nor numpy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .changes.agent_statements import Waiting
    from .changes.decisions import Decision
    from .changes.run_kinds import AppliedRun, SkippedAction, new_run_id
    from .changes.session_plans import Observed
    from .channel import checkouts
    from .embedding.embedding import Embedder, embedder_for
    from .engine.database import is_full, may_pass, within
    from .engine.postgres import reason_of as postgres_reason
    from .engine.served import read_dsn
    from .extensions import Extensions
    from .extensions import current as current_extensions
    from .extensions import use as use_extensions
    from .ledger.records import LANDED, LINK, Run
    from .ledger.salvage import discard as discard_ledgers
    from .ledger.salvage import salvage as salvage_ledgers
    from .memory import MemoryStore
    from .okf.entity_page import RELATION_WORDS
    from .okf.file import parse as parse_document
    from .okf.notes import date_of as note_date
    from .okf.notes import has_unreadable_date, in_calendar
    from .okf.notes import title_of as note_title
    from .okf.session import session_id
    from .purge.plan import Selection
    from .redaction import bounds_of_secret, redact
    from .search.gathering import Histogram
    from .settings import StorePaths
    from .text.acts import EDITS, SHELL, lines_of_errors
    from .text.chunking import estimate_tokens
    from .text.dates import MONTH_NUMBERS, calendar_day, find_asked
    from .text.fence import fenced, unmarked, unmarked_lines, without_controls, without_element, without_recalled
    from .text.quotes import read_reply
    from .text.sentences import first_sentences
    from .text.words import term_stems
    from .upkeep.backup import make_backup, restore_backup
    from .upkeep.backup_archive import read_archive
    from .upkeep.cleanup import DecayInputs
    from .upkeep.colleagues import LetIn, TeamEntry
    from .upkeep.health import check_closed, noted_in_ledger
    from .upkeep.memory_bundles import check_bundle, committed, lay_bundle, made_of, root_page
    from .upkeep.merging import ToldTurn, lasting_name, root_of, told_of, turn_key
    from .upkeep.replica import LocalFile
    from .vault.disk import beginning, opened, replace_file
    from .vault.vault import is_digest, is_kept
    from .working.sessions import HandedSession

__all__ = [
    "EDITS",
    "LANDED",
    "LINK",
    "MONTH_NUMBERS",
    "RELATION_WORDS",
    "SHELL",
    "AppliedRun",
    "DecayInputs",
    "Decision",
    "Embedder",
    "Extensions",
    "HandedSession",
    "Histogram",
    "LetIn",
    "LocalFile",
    "MemoryStore",
    "Observed",
    "Run",
    "Selection",
    "SkippedAction",
    "StorePaths",
    "TeamEntry",
    "ToldTurn",
    "Waiting",
    "beginning",
    "bounds_of_secret",
    "calendar_day",
    "check_bundle",
    "check_closed",
    "checkouts",
    "committed",
    "current_extensions",
    "discard_ledgers",
    "embedder_for",
    "estimate_tokens",
    "fenced",
    "find_asked",
    "first_sentences",
    "has_unreadable_date",
    "in_calendar",
    "is_digest",
    "is_full",
    "is_kept",
    "lasting_name",
    "lay_bundle",
    "lines_of_errors",
    "made_of",
    "make_backup",
    "may_pass",
    "new_run_id",
    "note_date",
    "note_title",
    "noted_in_ledger",
    "opened",
    "parse_document",
    "postgres_reason",
    "read_archive",
    "read_dsn",
    "read_reply",
    "redact",
    "replace_file",
    "restore_backup",
    "root_of",
    "root_page",
    "salvage_ledgers",
    "session_id",
    "term_stems",
    "told_of",
    "turn_key",
    "unmarked",
    "unmarked_lines",
    "use_extensions",
    "within",
    "without_controls",
    "without_element",
    "without_recalled",
]

_HOMES = {
    "HandedSession": "working.sessions",
    "Histogram": "search.gathering",
    "LANDED": "ledger.records",
    "LINK": "ledger.records",
    "LetIn": "upkeep.colleagues",
    "TeamEntry": "upkeep.colleagues",
    "LocalFile": "upkeep.replica",
    "ToldTurn": "upkeep.merging",
    "lasting_name": "upkeep.merging",
    "root_of": "upkeep.merging",
    "told_of": "upkeep.merging",
    "turn_key": "upkeep.merging",
    "MONTH_NUMBERS": "text.dates",
    "RELATION_WORDS": "okf.entity_page",
    "AppliedRun": "changes.run_kinds",
    "DecayInputs": "upkeep.cleanup",
    "Decision": "changes.decisions",
    "Embedder": "embedding.embedding",
    "MemoryStore": "memory",
    "Observed": "changes.session_plans",
    "Selection": "purge.plan",
    "SkippedAction": "changes.run_kinds",
    "Run": "ledger.records",
    "StorePaths": "settings",
    "Waiting": "changes.agent_statements",
    "beginning": "vault.disk",
    "check_closed": "upkeep.health",
    "noted_in_ledger": "upkeep.health",
    "make_backup": "upkeep.backup",
    "restore_backup": "upkeep.backup",
    "check_bundle": "upkeep.memory_bundles",
    "committed": "upkeep.memory_bundles",
    "lay_bundle": "upkeep.memory_bundles",
    "made_of": "upkeep.memory_bundles",
    "root_page": "upkeep.memory_bundles",
    "read_archive": "upkeep.backup_archive",
    "postgres_reason": "engine.postgres:reason_of",
    "read_dsn": "engine.served",
    "checkouts": "channel",
    "Extensions": "extensions",
    "current_extensions": "extensions:current",
    "use_extensions": "extensions:use",
    "discard_ledgers": "ledger.salvage:discard",
    "embedder_for": "embedding.embedding",
    "estimate_tokens": "text.chunking",
    "EDITS": "text.acts",
    "SHELL": "text.acts",
    "fenced": "text.fence",
    "find_asked": "text.dates",
    "first_sentences": "text.sentences",
    "in_calendar": "okf.notes",
    "has_unreadable_date": "okf.notes",
    "is_digest": "vault.vault",
    "lines_of_errors": "text.acts",
    "is_full": "engine.database",
    "is_kept": "vault.vault",
    "may_pass": "engine.database",
    "new_run_id": "changes.run_kinds",
    "note_date": "okf.notes:date_of",
    "note_title": "okf.notes:title_of",
    "opened": "vault.disk",
    "parse_document": "okf.file:parse",
    "read_reply": "text.quotes",
    "bounds_of_secret": "redaction",
    "calendar_day": "text.dates",
    "replace_file": "vault.disk",
    "redact": "redaction",
    "salvage_ledgers": "ledger.salvage:salvage",
    "session_id": "okf.session",
    "unmarked": "text.fence",
    "unmarked_lines": "text.fence",
    "term_stems": "text.words",
    "within": "engine.database",
    "without_controls": "text.fence",
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
