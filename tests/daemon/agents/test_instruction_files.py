"""The files of instructions that each program reads by itself, and the statements that they say already."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from dreamd.daemon.agents.instruction_files import InstructionFiles

RULE = "Never commit to main directly, always on a branch with a pull request."


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def project(home: Path) -> Path:
    folder = home / "src" / "orders"
    (folder / ".git").mkdir(parents=True)
    (folder / "api").mkdir()
    return folder


def test_each_program_has_files_of_its_own(project: Path, home: Path) -> None:
    for name in ("CLAUDE.md", "AGENTS.md", "GEMINI.md"):
        (project / name).write_text(
            f"# Rules\n\nOf {name}: commit to main never, always a branch with a pull request, directly.\n"
        )
        read_by = {
            agent
            for agent in ("claude-code", "codex", "gemini", "opencode", "cursor", "another")
            if InstructionFiles.read(agent, project, home).say(RULE)
        }
        (project / name).unlink()
        assert (
            read_by
            == {
                "CLAUDE.md": {"claude-code", "opencode"},
                "AGENTS.md": {"codex", "opencode", "cursor"},
                "GEMINI.md": {"gemini"},
            }[name]
        )


def test_a_folder_s_repository_and_the_person_s_own_files_count(project: Path, home: Path) -> None:
    assert not InstructionFiles.read("claude-code", project / "api", home).say(RULE)
    (project / "CLAUDE.md").write_text(RULE)
    assert InstructionFiles.read("claude-code", project / "api", home).say(RULE)
    (project / "CLAUDE.md").rename(project.parent / "CLAUDE.md")  # above the repository it is another project's
    assert not InstructionFiles.read("claude-code", project / "api", home).say(RULE)
    memory = home / ".claude" / "projects" / re.sub(r"\W|_", "-", str(project)) / "memory" / "MEMORY.md"
    memory.parent.mkdir(parents=True)
    memory.write_text(f"- {RULE}\n")
    assert InstructionFiles.read("claude-code", project, home).say(RULE)
    assert not InstructionFiles.read("codex", project, home).say(RULE)


def test_another_statement_of_like_words_is_not_said(project: Path, home: Path) -> None:
    (project / "AGENTS.md").write_text(
        "The orders service listens on port 8080.\n\nBranches are named after tickets.\n"
    )
    files = InstructionFiles.read("codex", project, home)
    assert files.say("the orders service listens on port 8080")
    assert not files.say("the orders service listens on 8443, not on 8080, behind the gateway of the platform")
    assert not files.say(RULE)
    assert not files.say("ok")


def test_what_is_no_file_is_left_out(project: Path, home: Path) -> None:
    os.mkfifo(project / "CLAUDE.md")
    (project / "CLAUDE.local.md").mkdir()
    assert InstructionFiles.read("claude-code", project, home).paragraphs == ()
    (project / "CLAUDE.md").unlink()
    (project / "AGENTS.md").write_text(RULE)
    (project / "CLAUDE.md").symlink_to("AGENTS.md")
    assert InstructionFiles.read("claude-code", project, home).say(RULE)
