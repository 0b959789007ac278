"""The pages of `docs/agents/`: every command is one, and each page names the files and events of its program."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from dreamd.daemon.agents.briefs import BRIEF_TOKENS
from dreamd.daemon.agents.hook_formats import FORMATS, Moment
from dreamd.daemon.agents.hooks import SESSION_TOKENS
from dreamd.daemon.agents.programs import GENERIC, PROGRAMS, Command, UserEnvironment
from dreamd.daemon.cli import connect_commands as connect
from dreamd.daemon.cli import entry as hook
from dreamd.daemon.cli import main
from dreamd.daemon.cli.terminal import Terminal
from dreamd.daemon.importing import FOLLOWED, FollowedName
from dreamd.daemon.importing.following.followed_places import folder_of

DOCS = Path(__file__).parents[3] / "docs" / "agents"
PAGES = {file.stem: file.read_text(encoding="utf-8") for file in DOCS.glob("*.md")}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a person's empty home, without variables that lead out of it."""
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "DREAMD_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("DREAMD_SOCKET", str(tmp_path / "s"))
    monkeypatch.setenv("DREAMD_DATA_DIR", str(tmp_path / "data"))
    return tmp_path


def commands_of(page: str) -> list[list[str]]:
    return [shlex.split(line)[1:] for line in re.findall(r"^    (dreamctl .*)$", PAGES[page], re.MULTILINE)]


def test_there_is_a_page_for_every_program() -> None:
    assert set(PAGES) == {*PROGRAMS, GENERIC}


@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_a_page_is_understood(page: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commands = commands_of(page)
    assert commands
    for words in commands:
        words = [word.replace("~", str(home)) for word in words]
        code = main.main([*words, *([] if "--check" in words or page == GENERIC else ["--dry-run"])])
        printed = capsys.readouterr()
        assert code == (1 if "--check" in words else 0), printed  # nothing is connected, and no daemon answers
        assert "Traceback" not in printed.err


@pytest.mark.parametrize("page", PROGRAMS)
def test_a_page_names_what_is_written(page: str, home: Path) -> None:
    places = UserEnvironment(home, {})
    program = PROGRAMS[page]
    for file in program.files(program.folder(places), places, Command("/dreamctl", {})):
        assert f"`~/{file.path.relative_to(home)}`" in PAGES[page]
        for event in re.findall(rf"hook {page} (\w+)", file.with_ours("")) if page != "opencode" else ():
            assert event in PAGES[page]


@pytest.mark.parametrize(("page", "variable"), [("claude-code", "CLAUDE_CONFIG_DIR"), ("codex", "CODEX_HOME")])
def test_a_variable_of_a_page_moves_every_file(page: str, variable: str, home: Path) -> None:
    assert f"With `${variable}` both are in that folder." in PAGES[page]
    places = UserEnvironment(home, {variable: str(home / "elsewhere")})
    program = PROGRAMS[page]
    files = program.files(program.folder(places), places, Command("/dreamctl", {}))
    assert [file.path.parent for file in files] == [home / "elsewhere"] * 2


def test_opencode_s_other_file_is_taken_where_it_is(home: Path) -> None:
    assert "(`opencode.jsonc` where you have that)" in PAGES["opencode"]
    places, program = UserEnvironment(home, {}), PROGRAMS["opencode"]
    program.folder(places).mkdir(parents=True)
    (program.folder(places) / "opencode.jsonc").write_text("{}")
    file, _ = program.files(program.folder(places), places, Command("/dreamctl", {}))
    assert file.path.name == "opencode.jsonc"


@pytest.mark.parametrize("agent", [agent for agent in FOLLOWED if agent in PROGRAMS])
def test_a_page_names_the_folder_that_is_followed(agent: FollowedName, home: Path) -> None:
    assert f"follow the sessions in `~/{folder_of(agent).relative_to(home)}` too" in PAGES[agent]


def test_moments_and_figures_are_those_of_the_pages() -> None:
    *moments, last = FORMATS["opencode"].moments
    assert f"MOMENT is {', '.join(f'`{name}`' for name in moments)} or `{last}`" in " ".join(PAGES[GENERIC].split())
    assert FORMATS["cursor"].takes == {Moment.START}
    assert "Cursor takes a text at a session's start alone" in PAGES["cursor"]
    for figure in (
        f"in at most {BRIEF_TOKENS} tokens",
        f"at most {SESSION_TOKENS:,} tokens",
        f"takes 150 ms at most, at a session's start {hook.START_DEADLINE_S} s",
    ):
        assert figure in PAGES["claude-code"]
    assert hook.DEADLINE_S < 0.15


def test_connecting_asks_first_and_says_what_it_did(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["connect", "gemini"]) == 1  # there is no terminal to ask at
    assert "--yes" in capsys.readouterr().err
    assert not (home / ".gemini").exists()
    assert main.main(["connect", "gemini", "--yes"]) == 0
    shown = capsys.readouterr().out
    assert '+    "BeforeAgent": [' in shown
    assert "Gemini CLI is connected." in shown
    assert main.main(["connect", "gemini", "--yes"]) == 0
    assert "already" in capsys.readouterr().out
    assert main.main(["disconnect", "gemini", "--yes", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["changed"] is True
    assert not (home / ".gemini/settings.json").exists()


def test_install_names_what_could_be_connected(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / ".gemini").mkdir()
    connect.offer(Terminal())
    assert "dreamctl connect gemini" in capsys.readouterr().err
    assert main.main(["connect", "gemini", "--yes"]) == 0
    capsys.readouterr()
    connect.offer(Terminal())
    assert capsys.readouterr().err == ""


def test_codex_is_not_called_trusted_where_it_cannot_be_asked(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["connect", "codex", "--yes"]) == 0
    printed = capsys.readouterr()
    assert "trust could not be asked" in printed.err
    assert "--trust" in printed.err


def test_the_generic_entry_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["connect", "generic"]) == 0
    assert json.loads(capsys.readouterr().out)["mcpServers"]["dreamd"]["args"] == ["mcp"]
