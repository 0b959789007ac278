"""The catalogue and the log: `index.md` of the vault and of our own folders, and `log.md`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import tzinfo
from urllib.parse import quote

from ...store.channel import team_of
from ...store.index.catalog import Content
from ...store.ledger.records import Run
from ...store.model import Level
from ...store.text.fence import plain
from ...store.vault.layout import GENERAL, PROJECTS, SESSIONS_FOLDER, is_ours, project_folder, project_of_path
from .digest_text import escaped

OKF_VERSION = "0.2"
MOST_PER_SECTION = 200

# From there on a folder's page lists months, and each month has a page of its own.
MOST_PER_PAGE = 500

# Entries of one kind on the page of a project, which names the page of all.
NEWEST = 12

FOLDERS: Mapping[str, str] = {
    "facts": "Facts",
    "scenarios": "Scenarios",
    "profiles": "Profiles",
    "people": "People",
    "sessions": "Sessions",
    "documents": "Documents",
}
"""The folders that have a page of all that is in them; `facts` to `profiles` are those of a flat vault."""

OF_PROJECTS = frozenset({PROJECTS, GENERAL})
_RUN_WORDS = {"applied": "applied", "undone": "undone", "partly_undone": "partly undone", "failed": "failed"}
_IN_LINK = str.maketrans({" ": "%20", "(": "%28", ")": "%29", "<": "%3C", ">": "%3E"})


def pages(
    contents: Sequence[Content],
    digests: Iterable[str],
    runs: Sequence[Run],
    zone: tzinfo,
    describe: Callable[[str], str] = lambda path: "",
) -> dict[str, str]:
    """Render every page of the catalogue and the log, by path. `describe` returns the description of a page."""
    found = {"log.md": log_page(runs, zone)}
    inside: dict[str, list[Content]] = defaultdict(list)
    for content in contents:
        inside[content.path.partition("/")[0]].append(content)
    for folder, title in FOLDERS.items():
        if inside[folder]:
            found |= _folder_pages(folder, title, inside[folder])
    found |= _projects(contents, describe)
    days = sorted((path for path in digests if path.endswith(".md")), reverse=True)
    if days:
        lines = [f"* [{path.removeprefix('digests/').removesuffix('.md')}](/{path})" for path in days]
        found["digests/index.md"] = _page("Digests", lines)
    found["index.md"] = _root_page(contents, inside, bool(days), describe)
    return found


def _projects(contents: Sequence[Content], describe: Callable[[str], str]) -> dict[str, str]:
    """Render the page of each project, of the memories of none, and of each kind in them."""
    found: dict[str, str] = {}
    at: dict[str, list[Content]] = defaultdict(list)
    sessions: dict[str, list[Content]] = defaultdict(list)
    for content in contents:
        if place := _place_of(content):
            at[place].append(content)
        elif content.level is Level.SESSION and content.path.startswith(SESSIONS_FOLDER):
            sessions[content.channel].append(content)
    for place, here in at.items():
        found |= _project(place, here, sessions[here[0].channel], describe)
    if named := sorted(place for place in at if place != GENERAL):
        lines = [f"* [{_title(at[place][0].channel)}]({_page_of(place)}) - {len(at[place]):,}" for place in named]
        found[f"{PROJECTS}/index.md"] = _page("Projects", lines)
    return found


def _place_of(content: Content) -> str | None:
    """Return the folder of the project that a file is of, "" and None as `project_of_path`.

    A colleague's memory stays in the folder in which it waited, and is listed with the project once it is accepted.
    """
    place = project_of_path(content.path)
    return project_folder(content.channel) if place == project_folder(team_of(content.channel)) else place


def _project(
    place: str, here: Sequence[Content], sessions: Sequence[Content], describe: Callable[[str], str]
) -> dict[str, str]:
    """Render a project's page: its profiles, the newest of each kind, its sessions; and the page of each kind."""
    found: dict[str, str] = {}
    kinds: dict[str, list[Content]] = defaultdict(list)
    for content in here:
        lies_in = project_of_path(content.path) or place
        kinds[content.path.removeprefix(f"{lies_in}/").rpartition("/")[0]].append(content)
    pages = sorted((one for one in kinds.pop("", [])), key=lambda one: (one.title, one.path))
    lines = [_line(one, describe(one.path) if one.is_live else "archived") for one in pages]
    for kind, listed in sorted(kinds.items()):
        title = kind.replace("-", " ").capitalize()
        found |= _folder_pages(f"{place}/{kind}", title, listed)
        newest = [one for one in listed if one.is_live][:NEWEST]
        more = [f"* [all {len(listed):,}]({_page_of(place, kind)})"] if len(listed) > len(newest) else []
        lines += ["", f"## {_title(title)}", "", *map(_day_of, newest), *more]
    if sessions:
        more = [f"* [and {len(sessions) - MOST_PER_SECTION:,} more]({_page_of('sessions')})"] * (
            len(sessions) > MOST_PER_SECTION
        )
        lines += ["", "## Sessions", "", *map(_day_of, sessions[:MOST_PER_SECTION]), *more]
    return found | {f"{place}/index.md": _page(_title(here[0].channel), lines)}


def log_page(runs: Sequence[Run], zone: tzinfo) -> str:
    """Render the dated history, newest first, by the person's own days."""
    lines = ["# Log"]
    day = ""
    for run in sorted(runs, key=lambda run: (run.started_at, run.run_id), reverse=True):
        local = run.started_at.astimezone(zone)
        if local.date().isoformat() != day:
            day = local.date().isoformat()
            lines += ["", f"## {day}", ""]
        lines.append(f"* **{local:%H:%M}** {run.kind}, {_RUN_WORDS.get(run.state, run.state)} ({run.run_id})")
    return "\n".join(lines) + "\n"


def _root_page(
    contents: Sequence[Content],
    inside: Mapping[str, Sequence[Content]],
    has_digests: bool,
    describe: Callable[[str], str],
) -> str:
    """Render the index: folders, then by channel the pages that people read and the files in folders of their own."""
    lines = ["---", f'okf_version: "{OKF_VERSION}"', "---", "", "# Memory", ""]
    lines += [
        f"* [{title}]({_page_of(folder)}) - {len(inside[folder]):,}"
        for folder, title in FOLDERS.items()
        if inside[folder]
    ]
    places = {place for one in contents if (place := _place_of(one))}
    lines += [f"* [Projects]({_page_of(PROJECTS)}) - {len(places - {GENERAL}):,}"] if places - {GENERAL} else []
    lines += [f"* [What belongs to no project]({_page_of(GENERAL)})"] if GENERAL in places else []
    lines += ["* [Digests](/digests/index.md)"] if has_digests else []
    lines += ["* [Log](/log.md)"]
    by_channel: dict[str, list[Content]] = defaultdict(list)
    for content in contents:
        by_channel[content.channel].append(content)
    for channel, here in sorted(by_channel.items()):
        sections = [*_reading(here, describe), *_elsewhere(here)]
        lines += ["", f"## {_title(channel)}", *sections] if sections else []
    return "\n".join(lines) + "\n"


def _reading(here: Sequence[Content], describe: Callable[[str], str]) -> list[str]:
    lines: list[str] = []
    for level, name, folder in ((Level.PROFILE, "Profile", "profiles"), (Level.SCENARIO, "Scenarios", "scenarios")):
        found = [one for one in here if one.level is level and one.is_live and is_ours(one.path)]
        found.sort(key=lambda page: (page.title, page.path))
        if found:
            lines += ["", f"### {name}", ""]
            lines += [_line(page, describe(page.path)) for page in found[:MOST_PER_SECTION]]
        if len(found) > MOST_PER_SECTION:
            place = project_of_path(found[-1].path) or folder
            lines.append(f"* … and {len(found) - MOST_PER_SECTION:,} more in [{_title(place)}]({_page_of(place)})")
    return lines


def _elsewhere(here: Sequence[Content]) -> list[str]:
    """List the files in folders of a person's own."""
    found = [one for one in here if one.path.partition("/")[0] not in {*FOLDERS, *OF_PROJECTS}]
    lines = [_line(one, "" if one.is_live else "archived") for one in sorted(found, key=lambda one: one.path)]
    return ["", "### Notes", "", *lines] if lines else []


def _folder_pages(folder: str, title: str, inside: Sequence[Content]) -> dict[str, str]:
    """Render a folder's page, newest first; for many files, a page that names the months, and one for each."""
    if len(inside) <= MOST_PER_PAGE:
        return {f"{folder}/index.md": _page(title, map(_dated, inside))}
    months: dict[str, list[Content]] = defaultdict(list)
    for content in inside:
        months[f"{content.at:%Y/%m}" if content.at else "undated"].append(content)
    found = {
        f"{folder}/{month}/index.md": _page(f"{title}, {month.replace('/', '-')}", map(_dated, listed))
        for month, listed in months.items()
    }
    lines = [
        f"* [{m.replace('/', '-')}]({_page_of(folder, m)}) - {len(months[m]):,}" for m in sorted(months, reverse=True)
    ]
    return found | {f"{folder}/index.md": _page(title, lines)}


def _page(title: str, lines: Iterable[str]) -> str:
    return "\n".join([f"# {title}", "", *lines]) + "\n"


def _dated(content: Content) -> str:
    notes = [content.at.date().isoformat()] if content.at else []
    return _line(content, ", ".join([*notes, content.channel, *([] if content.is_live else ["archived"])]))


def _day_of(content: Content) -> str:
    notes = [content.at.date().isoformat()] if content.at else []
    return _line(content, ", ".join([*notes, *([] if content.is_live else ["archived"])]))


def _line(content: Content, about: str) -> str:
    note = f" - {_title(about)}" if about else ""
    return f"* [{_title(content.title) or _title(content.path)}](/{_in_link(content.path)}){note}"


def _page_of(*folders: str) -> str:
    """Return the link to a folder's page: that of the folder itself leads nowhere in many readers."""
    return f"/{_in_link('/'.join(folders))}/index.md"


def _in_link(path: str) -> str:
    """Return a path as the target of a link, with control characters and marks of direction escaped."""
    return "".join(char if plain(char) == char else quote(char) for char in path.translate(_IN_LINK))


def _title(text: str) -> str:
    r"""Return a title within a link: a reader of the format may end the link at a bracket, behind a `\` too."""
    return escaped(plain(text)).replace(r"\[", "&#91;").replace(r"\]", "&#93;")
