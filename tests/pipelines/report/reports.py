"""Reports of runs for the tests of the digest and the page."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from html.parser import HTMLParser
from typing import Any

from dreamd.pipelines.gate.gate import Dropped, GateResult
from dreamd.pipelines.report.run_report import RunReport
from dreamd.pipelines.stages.lint import LintFinding
from dreamd.store import okf
from dreamd.store.index.projection import Node
from dreamd.store.ledger.records import Run
from dreamd.store.model import Action, ActionKind, Kind, Level, Memory, Status

from tests import memories
from tests.pipelines.fakes import NOW

VOID = {"meta", "link", "br", "hr", "img", "input", "path", "rect", "circle"}


EVIL = "</script><script>alert(1)</script><!-- dream x --> <img src=x onerror=alert(2)> \"'&amp; \u202e"


class Reader(HTMLParser):
    """Reads a page as a browser would: its tags with their attributes, its texts, and whether every tag is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def fact(text: str, **fields: Any) -> Memory:
    learned_at = NOW - timedelta(days=100)
    defaults: dict[str, Any] = {"created_at": learned_at, "extra": {"learned_at": learned_at.isoformat()}}
    return memories.fact(text, **(defaults | fields))


def action(memory: Memory, kind: ActionKind = ActionKind.CREATE, reason: str = "said in s1") -> Action:
    return Action(
        kind=kind,
        path=memory.path,
        node_id=memory.node_id,
        stage="consolidate",
        reason=reason,
        pre_sha256=None if kind is ActionKind.CREATE else "0",
        content=okf.from_memory(memory),
    )


def report(*actions: Action, run_id: str = "run-1", **more: object) -> RunReport:
    return RunReport(
        day=date(2026, 11, 21),
        run_id=run_id,
        actions=actions,
        counts={"consolidate": {"turns": 7}},
        seconds={"consolidate": 1.25},
        at=NOW,
        memories={Level.FACT: 12, Level.SCENARIO: 2, Level.PROFILE: 1},
        **more,  # type: ignore[arg-type]
    )


def full_report(text: str = "It is red") -> RunReport:
    replaced = ActionKind.REPLACE
    days = {"learned_at": NOW.isoformat(), "began": "2026-11-02", "ended": "2026-11-20"}
    episode = replace(fact(f"{text}: page"), level=Level.SCENARIO, kind=Kind.SCENARIO, sources=("a", "b"), extra=days)
    person = replace(fact(f"{text}: person"), level=Level.PROFILE, kind=Kind.PROFILE, description="3 facts")
    older, newer = fact(f"{text} or blue"), fact(f"{text} or green")
    heir = fact(f"{text} heir, the blue paint is gone")
    return report(
        action(fact(f"{text} learned")),
        action(episode),
        action(person),
        action(heir),
        action(fact(f"{text} changed"), replaced, f"said again {text}"),
        action(fact(f"{text} replaced", superseded_by=heir.node_id), replaced, "a newer one took its place"),
        action(
            fact(f"{text} doubted, we have blue paint", later=(heir.node_id,)),
            replaced,
            "a newer one may have taken its place",
        ),
        action(fact(f"{text} in question", contradicts=("n",)), replaced, "it contradicts another"),
        replace(
            action(fact(f"{text} stale", extra={"stale_after": NOW.isoformat()}), replaced, "its file is gone"),
            stage="staleness",
        ),
        action(fact(f"{text} faded", status=Status.DEPRECATED, archived_at=NOW), replaced, "confidence 0.04"),
        notes=(f"note {text}",),
        findings=(
            LintFinding("secrets", "notes/a.md", f"secret {text}"),
            LintFinding("index", "facts/b.md", f"index {text}"),
        ),
        gaps=(f"gap {text}",),
        filled=[(f"vain {text}", 2, Node("n1", "facts/n.md", Level.FACT, Kind.FACT, "n", f"found {text}"))],
        gate=GateResult(40, 0.612, 0.655, 1, 4, (Dropped("scenarios", "recall fell", 4, 4),)),
        model_note="Without a language model: none is configured.",
        tokens=1234,
        calls=5,
        decisions=[(older, newer)],
        runs=[
            Run(f"r{n}", "daily", "applied", NOW - timedelta(days=n), summary={"memories": {"L1": 12 - n}})
            for n in (1, 2)
        ],
    )
