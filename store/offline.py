"""A store that is closed: what is wrong with its databases and the vault's folder."""

from __future__ import annotations

from collections.abc import Iterator

from .engine.database import integrity_problems
from .ledger.salvage import damaged_files
from .paths import StorePaths
from .results import Problem
from .vault.disk import Disk
from .vault.vault import Vault


def check_closed(paths: StorePaths) -> Iterator[Problem]:
    """Yield what is wrong with a store that no process has open. The vault's files are not looked at."""
    is_marked = Vault(paths.vault, Disk()).has_marker()
    if paths.ledger.exists() and not is_marked:
        yield Problem(
            str(paths.vault), "the vault is not there, or not marked as one (its `.dreamd` is gone)", severity="error"
        )
    for path, remedy in (
        (paths.ledger, "the next start sets it aside and goes on with another; then `dreamctl salvage`"),
        (paths.index, "the next start makes it again, or `dreamctl rebuild` now"),
        (paths.embeddings, "the next start makes what is missing again"),
    ):
        if path.exists():
            yield from (Problem(path.name, f"{problem}; {remedy}", "error") for problem in integrity_problems(path))
        elif path != paths.ledger:
            yield Problem(path.name, "it is not there; the next start makes it", "note")
        elif is_marked:
            gone = "it is gone: put it back from a backup, or the next start begins another"
            yield Problem(path.name, gone, "error")
    for path in damaged_files(paths.ledger):
        found = "a damaged ledger lies here: `dreamctl salvage` brings back what can be read of it"
        yield Problem(path.name, found, "error")
