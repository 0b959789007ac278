"""Acts of an agent, read from the notes of its session's turns: calls, outcomes, and keys to find them again.

A call's note is `[Bash: pytest -q]` or `[Edit /a/b.py]`, the latter with lines that it changed below the path; a
result's is `[Bash result]` or `[Bash failed]`, above its output: importers and hooks write them alike for every
program.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from .words import content_stems, without_joints

EDITS: Final = frozenset({"Edit", "MultiEdit", "NotebookEdit", "Write"})
SHELL: Final = "Bash"
# Tools of the agent's own program, whose errors say nothing about the project: a file that was not read before.
LOOKS: Final = EDITS | {"Glob", "Grep", "LS", "NotebookRead", "Read", "Skill", "TaskUpdate"}

NO_TOOLS: Final = frozenset({"doing", "plan", "ran"})
"""Notes in the form of a call that are none: of a task list, of a plan, and of a command of the person's own."""

MOST_KEYS: Final = 4
"""Error keys of one output: a failing build repeats itself, and its first errors are the causes of the rest."""

KEY_CHARS: Final = 400
LONGEST_LINE: Final = 500
LINES_BELOW: Final = 3
MOST_NAMED: Final = 16

_CALL = re.compile(r"\[(?P<tool>[\w-]+)(?:: (?P<words>.+)| (?P<path>[~./].*))?\]", re.DOTALL)
_CHANGE = re.compile(rf"\s*\[(?:{'|'.join(sorted(EDITS))})(?::| [~./]).*\n")
# Of the lines of a change those that were taken out, the sign of those that were put in, and the end of the note.
_NOT_PUT_IN = re.compile(r"^- .*|^\+ |\]\s*\Z", re.MULTILINE)
_RESULT = re.compile(r"\[(?P<tool>[\w-]+) (?P<outcome>result|failed)\]\n")

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
# A line that states an error in the words of compilers, test runners and shells; most are English wherever they run.
_STATES_ERROR = re.compile(
    r"(?:[Ee]rror|[Ee]xception)\b|\b(?:ERROR|ERR_\w+|E[A-Z]{4,})\b|\bFAIL(?:ED|URE)?: "
    r"|(?i:\b(?:fatal|panic|undefined|cannot|unknown|missing|invalid|denied|refused|failed to|unable to|timed out)\b"
    r"|\bfailed: |\b(?:no such|not (?:found|defined|allowed|permitted|supported|checked)|does not exist)\b)"
)
# A line of a log, which tells what the program did: its level stands in it.
_LOGGED = re.compile(r"\b(?:TRACE|DEBUG|INFO|WARN(?:ING)?|[Ww]arning:)(?!\w)")
# The mark of a compiler below the line of source that it complains about.
_CARET = re.compile(r"\s*(?:\d+ *\| *)?\^[\^~ ]*")
# What is wrong and with what, which is enough beside its place: `undefined: json`.
_TERSE = re.compile(r"[a-z][a-z ]{2,40}: [\w.]{2,60}")
# The line of a compiler or a linter, with the place that it complains about; and the last line of a traceback.
_DIAGNOSTIC = re.compile(r"\s*[\w./\\~-]{1,200}:\d+(?::\d+)?: |(?:\w{1,60}\.){1,8}[A-Z]\w{1,60}: ")
# The place of an error in front of its message, `src/a.go:12:3: `, and the task that is named before its output.
_PLACE = re.compile(r"^(?:\[[\w:./-]{1,40}\] +|[\w./\\~-]{1,200}:\d+(?::\d+)?:? +)+")
_PATH = re.compile(r"(?<![\w.])(?:\.{0,2}|~|[A-Za-z]:)(?:[/\\][^\s/\\:'\"`,;()]+){2,}")
_HASH = re.compile(r"\b(?:0x[0-9a-fA-F]+|(?=[0-9a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,64})\b")
# Numbers, and times and sizes; not the digits of a code such as E0308, G304 or 42P05.
_NUMBER = re.compile(r"(?<![A-Za-z\d])\d[\d.,:]*(?:ms|s|m|h|[KMG]?i?B|%)?(?![A-Za-z\d])")
_WORD = re.compile(r"[^\W\d_]{2,}")
# An identifier, a code or an option, which says more than a word: `posix_spawn`, 'respx', SA1019, QUOTA_BYTES, --stat.
_NAME = re.compile(
    r"(?<!\S)--[a-z][\w-]+|['\"`]\w[^'\"`]*['\"`]|\b(?=\w*\d)(?=\w*[A-Za-z])\w{3,}\b|\b\w+_\w+\b|\b[A-Z]?[a-z]+[A-Z]\w+\b"
)


_QUOTED = re.compile(r"(?<!\w)(['\"`])(\w[^'\"`\n]{0,80})\1(?!\w)")
_NUMBER_OR_WORD = re.compile(r"(?<![\w.])\d{1,15}(?:\.\d{1,15})?(?![\w.]*\w)|[^\W\d_]{2,}")

# A file or folder as people write it: with a slash in it, a dot in front, or an ending of letters.
_FILE = re.compile(
    r"(?<![\w@:/.~-])(?:(?:~|\.{1,2})?/?(?:[\w.-]{1,80}/){1,16}[\w.-]{0,80}"
    r"|[\w-]{1,80}(?:\.[\w-]{1,40}){0,4}\.[A-Za-z]\w{0,5}\b(?!\()|\.[a-z][\w-]{2,40}\b)"
)


# Programs that every machine has: that they work here says nothing about the project.
_COMMON: Final = frozenset(
    "awk basename bash cat cd chmod chown cp curl cut date df diff dirname docker du echo env export false "
    "file find gh git grep head hostname id jq kill less ln ls lsof mkdir mktemp mv node open perl pgrep pip "
    "pkill printf ps pwd python python3 readlink realpath rg rm rsync sed seq set sh shasum sleep sort source "
    "ssh stat sudo tail tar tee test time timeout touch tr tree true type uname uniq unzip wc wget which "
    "whoami xargs yes".split()
)

# Of these programs the ones that do many things, each by a word of its own.
_MANY: Final = frozenset({"docker", "gh", "git"})
# The words by which programs name what only shows something.
_SHOWS: Final = frozenset(
    "branch blame cat config describe diff get help history info inspect list log logs ls ps remote rev-parse show "
    "stat status tree version view which".split()
)


@dataclass(frozen=True, slots=True)
class Act:
    """One call of a tool: its words (a command or a path), and its outcome where one is known.

    `at` and `ended_at` are the ordinals of the call's turn and of its result's; `output` is the result's text, and
    `change` are lines that an edit took out and put in.
    """

    tool: str
    words: str
    at: int
    ended_at: int | None = None
    failed: bool = False
    output: str = ""
    change: str = ""

    @property
    def is_edit(self) -> bool:
        """True for a call that changes a file."""
        return self.tool in EDITS


def call_of(text: str) -> tuple[str, str] | None:
    """Return the tool and the words of the note of a call, None for any other text."""
    return (called[0], called[1]) if (called := _call_in(text)) is not None else None


def _call_in(text: str) -> tuple[str, str, str] | None:
    """Return the tool and the words of the note of a call, and the lines that it changed."""
    if (found := _CALL.fullmatch(text.strip())) is None:
        return None
    words, _, change = (found["words"] or found["path"] or "").strip().partition("\n")
    return found["tool"], words.rstrip(), change


def is_note_of_change(text: str) -> bool:
    """Check for the note of an edit with lines that it changed."""
    return _CHANGE.match(text) is not None


def without_removed_lines(text: str) -> str:
    """Return the note of an edit with spaces in place of the lines that it took out; any other text as it is.

    The bracket is closed behind the path, and what was put in has no sign. Places stay:

        "[Edit /a.md\\n- Old.\\n+ New.]"    is    "[Edit /a.md]      \\n  New. "
    """
    if (noted := _CHANGE.match(text)) is None:
        return text
    head, change = text[: noted.end() - 1], text[noted.end() :]
    return f"{head}]{_NOT_PUT_IN.sub(lambda found: ' ' * len(found[0]), change)}"


def result_of(text: str) -> tuple[str, bool, str] | None:
    """Return the tool of the note of a result, True if it failed, and its output; None for any other text."""
    if (found := _RESULT.match(text)) is None:
        return None
    return found["tool"], found["outcome"] == "failed", text[found.end() :]


def acts_in(turns: Iterable[tuple[int, str]]) -> list[Act]:
    """Return the acts of a session's turns (ordinal and text), in the order of their calls.

    A program writes the results of calls made together in their order; an empty result leaves no note. So the notes of
    results that follow a row of calls belong to its last calls:

        calls A B C, results of two    A is without a result, the first is B's, the second C's
    """
    acts: list[Act] = []
    row: list[int] = []
    results: list[tuple[int, str, bool, str]] = []
    for ordinal, text in turns:
        if (called := _call_in(text)) is not None:
            if results:
                _give_results(acts, row, results)
                row, results = [], []
            row.append(len(acts))
            tool, words, change = called
            acts.append(Act(tool, words, ordinal, change=change))
        elif (ended := result_of(text)) is not None:
            results.append((ordinal, *ended))
    _give_results(acts, row, results)
    return acts


def _give_results(acts: list[Act], row: Sequence[int], results: Sequence[tuple[int, str, bool, str]]) -> None:
    for tool in {result[1] for result in results}:
        ended = [result for result in results if result[1] == tool]
        calls = [place for place in row if acts[place].tool == tool]
        for place, (ordinal, _, failed, output) in zip(reversed(calls), reversed(ended), strict=False):
            acts[place] = replace(acts[place], ended_at=ordinal, failed=failed, output=output)


def error_keys(output: str) -> list[str]:
    """Return the lines of an output that state an error, without numbers, addresses, places and folders, each once.

    At most MOST_KEYS of them, of lines that say enough (`error_key`).
    """
    return list(_errors_in(output))


def lines_of_errors(output: str) -> list[str]:
    """Return the lines of an output that its error keys are of, in their order."""
    return list(_errors_in(output).values())


def _errors_in(output: str) -> dict[str, str]:
    """Return the first lines that state an error, by their keys."""
    found: dict[str, str] = {}
    lines = output.splitlines()
    for line, below in zip(lines, [*lines[1:], ""], strict=False):
        if _LOGGED.search(line) or (below.strip() and _CARET.fullmatch(below)):
            continue
        if (_STATES_ERROR.search(line) or _DIAGNOSTIC.match(line)) and (key := error_key(line)):
            found.setdefault(key, line[:LONGEST_LINE])
            if len(found) == MOST_KEYS:
                break
    return found


def place_of_error(output: str, key: str) -> str:
    """Return the line of an output that states an error, with the lines of source that a compiler shows below it."""
    lines = output.splitlines()
    at = next((number for number, line in enumerate(lines) if error_key(line) == key), len(lines))
    return "\n".join(lines[at : at + LINES_BELOW])


def error_key(line: str) -> str:
    """Return a line of an error without all that differs from one time to the next; "" where it says too little.

    Four words are enough, of which a name or a code counts for two: "error task failed" ends a hundred unlike runs.
    """
    line = _ANSI.sub("", line).strip()
    plain = _PLACE.sub("", line)
    is_placed = plain != line
    plain = _PATH.sub(lambda path: re.split(r"[/\\]", path[0])[-1], _HASH.sub("#", plain))
    plain = " ".join(_NUMBER.sub("#", plain).split())[:KEY_CHARS]
    words = [word for word in plain.split() if _WORD.fullmatch(word.strip(".,:;!?()[]"))]
    says_enough = len(words) + 2 * len(_NAME.findall(plain)) >= 4 or (is_placed and _TERSE.fullmatch(plain))
    return plain if says_enough else ""


def file_key(path: str) -> str:
    """Return a path's last two parts: the same file in every clone and worktree."""
    parts = [part for part in re.split(r"[/\\]+", path.strip()) if part not in ("", ".", "~")]
    return "/".join(parts[-2:])


def command_key(command: str) -> str:
    """Return a command's words up to its first option or path: `go test`, `mise run lint`, `npm run build`.

    Of commands in a row the last, without the folder and the variables in front of it.
    """
    last = re.split(r"&&|\|\||;|\n", command.partition(" | ")[0])[-1]
    last = re.sub(r"\bpython[\d.]* -m ", "", last)
    words: list[str] = []
    for word in last.split():
        if not words and "=" in word:
            continue
        if words and (word.startswith("-") or not re.fullmatch(r"[\w:.-]+", word)):
            break
        words.append(word.rsplit("/", 1)[-1])
        if len(words) == 3:
            break
    return " ".join(words)


def command_keys(command: str) -> list[str]:
    """Return the keys of each command of a row, in their order, but for those that change the folder."""
    parts = re.split(r"&&|\|\||;|\n", command)
    return [key for part in parts if (key := command_key(part)) and not key.startswith("cd")]


def plain_command(command: str) -> str:
    """Return a command without the folder that it changes to, redirections, and spaces that say nothing."""
    return " ".join(re.sub(r"^\s*cd [^&;|]{1,200}&&|2>&1|\|\s*(?:tail|head)\b.*$", "", command).split())


def files_named(text: str) -> list[str]:
    """Return the names of files and folders that a text names, in lower case: a folder's with "/" behind it."""
    names: dict[str, None] = {}
    for match in _FILE.finditer(text):
        path = match[0].rstrip(".,:;)").lower()
        name = path.rstrip("/").rsplit("/", 1)[-1]
        if path.endswith("/") or (name.startswith(".") and "." not in name[1:]):
            names[f"{name}/"] = None
        if not path.endswith("/"):
            names[name] = None
    return [name for name in names if len(name) > 2][:MOST_NAMED]


def names_path(text: str, path: str) -> bool:
    """Return True if a text names a path: by its last parts, with their folders where it says any, or by a folder."""
    parts = [part for part in re.split(r"[/\\]+", path.strip().lower()) if part.strip(".")]
    for match in _FILE.finditer(text.lower()):
        named = [part for part in match[0].rstrip(".,:;)").split("/") if part.strip(".~")]
        ends = (
            {len(parts)} if not match[0].endswith("/") and "." in named[-1:][0].lstrip(".") else range(len(parts) + 1)
        )
        if named and any(parts[max(0, end - len(named)) : end] == named for end in ends):
            return True
    return False


def values_named(text: str) -> frozenset[str]:
    """Return the identifiers, codes, options and quoted names of a text, in lower case, and its numbers.

    A number stands with a word beside it, since that says what it counts: `12 penalty`, of "penalty 12" and
    `latePenalty = 12.0`; in "1 and 3 first" it only points at a list.
    """
    quoted = (match[2] for match in _QUOTED.finditer(text))
    names = (name for name in _NAME.findall(text) if name[0] not in "'\"`")
    said = [match[0] for match in _NUMBER_OR_WORD.finditer(without_joints(text))]
    numbers = (
        f"{float(one):g} {stem}"
        for place, one in enumerate(said)
        if one[0].isdigit()
        for stem in content_stems(" ".join((*said[max(0, place - 1) : place], *said[place + 1 : place + 2])))
    )
    return frozenset((*(name.lower() for name in (*quoted, *names)), *numbers))


def names_of_path(path: str) -> list[str]:
    """Return the names by which a text may name a path: the file's, then those of its folders, the nearest first."""
    *folders, name = re.split(r"[/\\]+", path.strip().lower())
    return [name, *(f"{folder}/" for folder in reversed(folders) if folder.strip("."))][:MOST_NAMED]


def is_of_project(command: str) -> bool:
    """Return True for the key of a command of the project's own: its tests, builds, tasks and programs."""
    return bool(command) and command.partition(" ")[0] not in _COMMON


def only_looks(words: Sequence[str]) -> bool:
    """Return True for the words of a command that changes and checks nothing, as far as its words say so."""
    program, *rest = words
    return (program in _COMMON and program not in _MANY) or any(word in _SHOWS for word in rest[:2])


def ending_of(acts: Sequence[Act], failed: Act, key: str) -> Act | None:
    """Return the act that shows that an error is gone: the next run of its command without it, or one like it that ran.

    A command that printed nothing has no result; it ran if the agent went on.
    """
    *_, last = command_keys(failed.words) or [""]
    edited = False
    for act in acts:
        if act.at <= (failed.ended_at or failed.at):
            continue
        edited |= act.is_edit
        if act.tool != failed.tool or (act.ended_at is None and act is acts[-1]):
            continue
        if last and last in command_keys(act.words) and key not in error_keys(act.output):
            return act
        if not edited and not act.failed and is_like(act.words, failed.words):
            return act
    return None


def is_like(command: str, other: str) -> bool:
    """Return True for two commands of which one may be the other put right: half of their words are in both."""
    one, two = (set(re.findall(r"[\w./-]{2,}", plain_command(words))) for words in (command, other))
    return are_of_one_program(command, other) and len(one & two) >= max(2, 0.5 * max(len(one), len(two)))


def are_of_one_program(command: str, other: str) -> bool:
    """Return True if two commands run the same program and task: `go test`, `git show`."""
    one, two = ({" ".join(key.split()[:2]) for key in command_keys(words)} for words in (command, other))
    return any(is_of_project(key) or " " in key for key in one & two)
