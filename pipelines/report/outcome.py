"""The outcome of a run: what its steps counted and noted, what the gate said, which model was asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...llm.budget import Asker
from ..gate.gate import GateResult
from ..protocol import Check
from ..stages.lint import Finding


def counts_in_words(counts: Mapping[str, int]) -> str:
    """Write what a step counted: `1 episode, 2 profiles changed`; "nothing to do" for nothing."""
    return ", ".join(f"{number:,} {_noun(what, number)}" for what, number in counts.items()) or "nothing to do"


def _noun(what: str, number: int) -> str:
    """Return what is counted, whose first word is a plural where it ends with an s, for one or for many."""
    noun, *rest = what.split(" ")
    return " ".join([noun.removesuffix("s") if number == 1 else noun, *rest])


@dataclass(frozen=True, slots=True)
class ModelUse:
    """The use of a language model in a run. `why_not` says why there was none, wholly or from some point on."""

    name: str = ""
    calls: int = 0
    tokens: int = 0
    seconds: float = 0.0
    why_not: str = ""

    @classmethod
    def of(cls, asker: Asker | None, why_not: str) -> ModelUse:
        """Read what was asked of a model; without one, `why_not` says why, or is empty."""
        if asker is None:
            return cls(why_not=why_not)
        spent = asker.spent
        return cls(asker.name, spent.calls, spent.tokens, spent.seconds, asker.why_not)

    @property
    def note(self) -> str:
        """The same in a sentence or two."""
        if not self.name:
            return f"It went without a language model: {self.why_not}" if self.why_not else "No language model is set."
        return f"{self.name} helped{', until ' + self.why_not.rstrip('.') if self.why_not else ''}."


@dataclass(slots=True)
class Outcome:
    """The result of every step: its counts, seconds and notes by name; notes hold no person's text."""

    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    findings: tuple[Finding, ...] = ()
    gate: GateResult | None = None
    model: ModelUse = field(default_factory=lambda: ModelUse())
    checks: tuple[Check, ...] = ()
