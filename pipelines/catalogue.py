"""The catalogue and the log: `index.md` and `log.md`, regenerated from what is there."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta, timezone

from ..store.keep.history import Run
from ..store.model import Level, Memory
from .view import View

OKF_VERSION = "0.2"
MOST_PER_SECTION = 200
_RUN_WORDS = {"applied": "applied", "undone": "undone", "partly_undone": "partly undone", "failed": "failed"}


def index_page(view: View) -> str:
    """The root catalogue: pages by channel, facts by number."""
    lines = ["---", f'okf_version: "{OKF_VERSION}"', "---", "", "# Memory"]
    memories = view.memories()
    for channel in sorted({memory.channel for memory in memories}):
        here = [memory for memory in memories if memory.channel == channel]
        facts = sum(memory.level is Level.FACT for memory in here)
        lines += ["", f"## {channel}", "", f"{facts} facts in [facts](/facts/)."]
        for level, name in ((Level.PROFILE, "Profile"), (Level.SCENARIO, "Scenarios")):
            pages = sorted(
                (memory for memory in here if memory.level is level), key=lambda page: (page.title, page.node_id)
            )
            lines += _section(view, name, pages)
    return "\n".join(lines) + "\n"


def log_page(runs: Sequence[Run], utc_offset_s: int) -> str:
    """The dated history, newest first, by the person's own days."""
    zone = timezone(timedelta(seconds=utc_offset_s))
    lines = ["# Log"]
    day = ""
    for run in sorted(runs, key=lambda run: (run.started_at, run.run_id), reverse=True):
        local = run.started_at.astimezone(zone)
        if local.date().isoformat() != day:
            day = local.date().isoformat()
            lines += ["", f"## {day}", ""]
        lines.append(f"* **{local:%H:%M}** {run.kind}, {_RUN_WORDS.get(run.state, run.state)} ({run.run_id})")
    return "\n".join(lines) + "\n"


def _section(view: View, name: str, pages: Sequence[Memory]) -> list[str]:
    if not pages:
        return []
    lines = ["", f"### {name}", ""]
    for known in pages[:MOST_PER_SECTION]:
        page = view.memory(known.node_id) or known  # the copy does not hold what a page says of itself
        about = f" - {page.description}" if page.description else ""
        lines.append(f"* [{page.title.replace('[', '(').replace(']', ')')}](/{page.path}){about}")
    if len(pages) > MOST_PER_SECTION:
        lines.append(f"* … and {len(pages) - MOST_PER_SECTION} more")
    return lines
