"""Damaged databases: a question is repeated to the replacement, and the salvage that a person must do is reported."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from ..ledger.ledger import Ledger
from ..ledger.salvage import HISTORY_LOST, damaged_files
from ..model import Corrupt, IndexDamaged, StoreError
from ..writer.writer import Writer
from .mending import Mending

# The longest wait of a question for a new index in place of a damaged one; the new one fills while it answers.
REPLACED_S = 4.0

SALVAGE = "Stop dreamd, then `dreamctl salvage` brings back what can be read of it."


class Repairs:
    """Waits until a damaged index or ledger is replaced. Every method may be called from any thread."""

    def __init__(self, mending: Mending, writer: Writer) -> None:
        self._mending = mending
        self._writer = writer

    def wait_for_index(self) -> None:
        """Wait, at most REPLACED_S, for an index that can be asked."""
        self._mending.wait(REPLACED_S)

    def wait_for_ledger(self) -> None:
        """Wait, at most REPLACED_S, for a ledger that can be written."""
        with contextlib.suppress(StoreError, TimeoutError):
            self._writer.write().result(REPLACED_S)  # resolves once all writes before it are done

    def suspect_index(self) -> None:
        """Have the index checked: a process that read it failed."""
        self._mending.suspect()


class Repairable(Protocol):
    """An object that asks databases which may be damaged."""

    @property
    def repairs(self) -> Repairs:
        """The repairs to wait for."""
        ...


S = TypeVar("S", bound=Repairable)
P = ParamSpec("P")
T = TypeVar("T")


def repeated_after_repair(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Repeat a method once, after the repair, if the index or the ledger turns out damaged."""

    @wraps(method)
    def ask(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(self, *args, **kwargs)
        except IndexDamaged:
            self.repairs.wait_for_index()
        except Corrupt:  # the ledger
            self.repairs.wait_for_ledger()
        return method(self, *args, **kwargs)

    return ask


def refuse_without_history(ledger_path: Path) -> None:
    """Raise StoreError while a damaged ledger waits to be salvaged."""
    if set_aside := damaged_files(ledger_path):
        raise StoreError(f"the history is set aside in {set_aside[0].name}, which is damaged", hint=SALVAGE)


def history_problems(ledger_path: Path, ledger: Ledger) -> Iterator[str]:
    """Yield, in sentences, the damage to the history that a person has to repair."""
    for path in damaged_files(ledger_path):
        yield (
            f"The ledger was damaged, and is set aside as {path.name}. What is remembered is kept; dreams and undo "
            f"wait. {SALVAGE}"
        )
    if since := ledger.flags().get(HISTORY_LOST):
        yield (
            f"The vault was there before its ledger, which began on {since[:10]}: what was done before is not known. "
            "Turns that were forgotten may be told again, and channels that were off learn again: forget them, and "
            "switch these off, once more. Or put the old ledger back from a backup while dreamd is stopped. To go on "
            "without: stop dreamd, then `dreamctl salvage --discard`."
        )
