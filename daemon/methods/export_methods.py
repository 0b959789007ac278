"""The method that hands memories out: a bundle of files, lines of JSON, or a page that hands a project over."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from ...ipc.call import Call, Method
from ...ipc.channels import channel_for, full_name
from ...ipc.params import UserParams
from ...ipc.protocol import Refused
from ...store import committed, redact, replace_file, root_page, unmarked
from ...store.channel import may_read, of_one_project, project_name
from ...store.model import Kind, Memory
from ...store.names import Channel
from ..agents.briefs import rendered
from ..clock import local_now

if TYPE_CHECKING:
    from ...store import MemoryStore

Form = Literal["okf", "ocf", "jsonl", "handover"]

FACTS_READ = 5000
PITFALLS, THREADS = "Pitfalls", "Open threads"
_TRAPS = frozenset({Kind.PITFALL, Kind.NEGATIVE, Kind.FINDING})


class ExportParams(UserParams):
    """The new file, an absolute path, and its form; of one channel, or of all. `sessions`: those too."""

    path: Annotated[str, Field(min_length=1, max_length=4096)]
    form: Form
    channel: Channel | None = None
    sessions: bool = False


@dataclass(frozen=True, slots=True)
class ExportAnswer:
    """The file that was written, and the number of memories in it; `redacted` counts secrets that were masked."""

    path: str
    form: Form
    channel: str | None
    memories: int
    redacted: int


class ExportMethods:
    """The method; it runs in a thread of long ones."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def export(self, params: ExportParams, call: Call) -> ExportAnswer:
        """Write the memories of a channel, or of all, into a new file. Nothing private or taken back is in it."""
        target = Path(params.path)
        if not target.is_absolute():
            raise Refused(f"{target} is a relative path.", "The daemon has another working folder.")
        if os.path.lexists(target):
            raise Refused(f"{target} exists.", "Name a new file: no file is overwritten.")
        if not target.parent.is_dir():
            raise Refused(f"{target} cannot be written.", "Name a new file in a folder that is there.")
        channel = params.channel and full_name(params.channel, self._store.channel_names_with(params.channel))
        channel = channel and channel_for(params.user_id, channel)
        if params.form == "handover":
            if channel is None:
                raise Refused("A handover is of one channel.", "Name it: --channel NAME.")
            return self._hand_over(target, channel)
        channels = self._of_project(channel) if channel else (None,)
        files = [
            file
            for one in channels
            for file in self._store.exports.files(one, sessions=params.sessions)
            if params.user_id is None or may_read(params.user_id, file.record["channel"])
        ]
        title = channel or "All channels"
        call.progress("export", len(files))
        if params.form == "ocf":
            is_whole, user = channel is None and params.user_id is None, params.user_id

            def is_within(named: str) -> bool:
                return (channel is None or named in channels) and (user is None or may_read(user, named))

            content = committed(files, self._store.exports.decisions(files, is_within, whole=is_whole), title, channel)
        elif params.form == "jsonl":
            content = b"".join(file.line() for file in files)
        else:
            content = _packed({file.path: file.content for file in files}, title)
        replace_file(target, content)
        return ExportAnswer(
            str(target), params.form, channel, len(files), redacted=sum(file.redacted for file in files)
        )

    def _of_project(self, channel: str) -> list[str]:
        """Return a channel and those of other clones of its project, without the private ones of these."""
        return [one for one in of_one_project(channel) if one == channel or one not in self._store.channels_off]

    def _hand_over(self, target: Path, channel: str) -> ExportAnswer:
        self._store.refuse_if_off(channel)
        today = local_now().date()
        sections = [(heading, lines) for heading, lines in self._sections(self._of_project(channel), today) if lines]
        is_page = target.suffix in (".html", ".htm")
        text = (_as_html if is_page else _as_markdown)(project_name(channel), today, sections)
        shown = redact(text)
        replace_file(target, shown.text.encode())
        return ExportAnswer(
            str(target), "handover", channel, sum(len(lines) for _, lines in sections), len(shown.found)
        )

    def _sections(self, channels: Sequence[str], today: date) -> Iterator[tuple[str, Sequence[str]]]:
        """Yield the headings with their lines: those of a session's start, without its bounds, and more."""
        from ...pipelines.pages.briefing import MOST_OF, is_worth_a_line, parts_of
        from ...pipelines.pages.current_facts import current, until, with_plain_successors
        from ...pipelines.pages.outdated import without_outdated

        facts = [fact for one in channels for fact in self._store.facts(one, FACTS_READ) if not fact.is_waiting]
        doubts = {fact.node_id: f" ({until(fact)})" for fact in facts if until(fact)}
        parts = parts_of(facts, today, None, most_of=dict.fromkeys(MOST_OF, FACTS_READ))
        told = {line.fact.node_id for part in parts for line in part.lines}
        for part in parts:
            # A colleague has no `recall` to look the steps up.
            yield (
                part.heading,
                [
                    (_quoted(line.fact) if line.steps_left_out else rendered(line, today, is_dated=True))
                    + doubts.get(line.fact.node_id, "")
                    for line in part.lines
                ],
            )
        holding = without_outdated([fact for fact in current(with_plain_successors(facts)) if is_worth_a_line(fact)])
        traps = [fact for fact in holding if fact.kind in _TRAPS and fact.node_id not in told]
        yield PITFALLS, [_quoted(fact) + doubts.get(fact.node_id, "") for fact in traps]
        goals = [goal for one in channels for goal in self._store.threads(one)]
        threads = [(goal, goal.thread_since or goal.changed_at) for goal in goals]
        yield THREADS, [f"- {one.state}, since {since:%-d %B %Y}: {unmarked(one.text)}" for one, since in threads]


def _quoted(fact: Memory) -> str:
    said_on = f"{fact.created_at:%-d %b %Y}: " if fact.created_at else ""
    return f"- {said_on}“{unmarked(' '.join(fact.text.split()))}”"


def _as_markdown(channel: str, today: date, sections: Iterable[tuple[str, Sequence[str]]]) -> str:
    parts = [f"# Handover of {channel}\n\n{_lead(today)}\n"]
    parts += [f"## {heading}\n\n" + "\n".join(lines) + "\n" for heading, lines in sections]
    return "\n".join(parts)


def _as_html(channel: str, today: date, sections: Iterable[tuple[str, Sequence[str]]]) -> str:
    from html import escape

    from ...pipelines.report.html import document

    main = [f'<article><p class="lead">{escape(_lead(today))}</p>']
    for heading, lines in sections:
        items = "\n".join(f"<li>{escape(line.removeprefix('- '))}</li>" for line in lines)
        main.append(f"<section><h2>{escape(heading)}</h2>\n<ul>\n{items}\n</ul></section>")
    return document(
        f"Handover of {channel}",
        "\n".join([*main, "</article>"]),
        "Written by dreamd: every line is a quote of what was said.",
    )


def _lead(today: date) -> str:
    return f"What holds here on {today:%-d %B %Y}, in the words in which it was said; secrets are masked."


def _packed(files: Mapping[str, bytes], title: str) -> bytes:
    """Return an OKF bundle of files, with a page at its root."""
    content = BytesIO()
    root = root_page(title, len(files), local_now().date())
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        for path, data in (*files.items(), ("index.md", root)):
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(data), 0o600
            tar.addfile(entry, BytesIO(data))
    return content.getvalue()


EXPORT_METHODS: tuple[Method[Any, Any], ...] = (
    Method("export", ExportParams, ExportAnswer, ExportMethods.export, long=True),
)
