"""The files of instructions that each program reads by itself, and the statements that they say already."""

from __future__ import annotations

import os
import queue
import re
from pathlib import Path

import pytest
from dreamd.daemon.agents.instruction_files import FileKeeper, InstructionFiles, files_of_person, files_of_project
from dreamd.store.results import ProgramFile

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


# ---- all programs' files of a place


def keys(files: list[ProgramFile]) -> dict[str, set[str]]:
    return {one.key: set(one.read_by) for one in files}


def test_the_files_of_a_project_are_those_of_all_programs(project: Path, home: Path) -> None:
    (project / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    for name in ("CLAUDE.md", "AGENTS.md", "GEMINI.md", "api/CLAUDE.md"):
        (project / name).write_text(RULE)
    found = files_of_project(project / "api", home)
    assert keys(found) == {
        "api/CLAUDE.md": {"claude-code", "opencode"},
        "CLAUDE.md": {"claude-code", "opencode"},
        "AGENTS.md": {"codex", "opencode", "cursor"},
        "GEMINI.md": {"gemini"},
    }
    assert {one.speaker for one in found} == {"CLAUDE.md", "AGENTS.md", "GEMINI.md"}


def test_who_imports_a_file_reads_it_and_a_link_is_the_file_itself(project: Path, home: Path) -> None:
    (project / "AGENTS.md").write_text(RULE)
    (project / "CLAUDE.md").write_text("Only here.\n\n@AGENTS.md\n")
    (project / "GEMINI.md").symlink_to("AGENTS.md")
    assert keys(files_of_project(project, home)) == {
        "AGENTS.md": {"codex", "opencode", "cursor", "claude-code", "gemini"},
        "CLAUDE.md": {"claude-code", "opencode"},
    }


def test_no_link_leads_out_of_a_project_but_the_person_s_own_may_be_links(
    project: Path, home: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside.md"
    outside.write_text("secret")
    (project / "CLAUDE.md").symlink_to(outside)
    assert files_of_project(project, home) == []
    (home / ".claude").mkdir()
    (home / ".claude" / "CLAUDE.md").symlink_to(outside)
    assert keys(files_of_person(home)) == {"~/.claude/CLAUDE.md": {"claude-code"}}


def test_the_notes_that_programs_write_are_an_assistant_s_words(project: Path, home: Path) -> None:
    notes = home / ".claude" / "projects" / re.sub(r"[^A-Za-z0-9]", "-", str(project)) / "memory"
    notes.mkdir(parents=True)
    (notes / "MEMORY.md").write_text("- [Deploys](deploys.md)")
    (notes / "deploys.md").write_text("Deploys take an hour.")
    (home / ".codex" / "memories").mkdir(parents=True)
    (home / ".codex" / "memories" / "memory_summary.md").write_text("They like short answers.")
    found = [*files_of_project(project, home), *files_of_person(home)]
    assert {one.speaker for one in found} == {"assistant"}
    assert [set(one.read_by) for one in found] == [{"claude-code"}, set(), {"codex"}]


def test_worktrees_of_a_repository_have_the_main_one_s_files(project: Path, home: Path) -> None:
    git = project / ".git"
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    tree = home / "src" / "orders-fix"
    tree.mkdir()
    own = git / "worktrees" / "orders-fix"
    own.mkdir(parents=True)
    (own / "HEAD").write_text("ref: refs/heads/fix\n")
    (own / "commondir").write_text("../..\n")
    (own / "gitdir").write_text(f"{tree / '.git'}\n")
    (tree / ".git").write_text(f"gitdir: {own}\n")
    for folder in (project, tree):
        (folder / "CLAUDE.md").write_text(f"In {folder.name}.")
    (tree / "AGENTS.md").write_text("Only here.")
    found = {one.key: one.path for one in files_of_project(tree, home)}
    assert found == {"CLAUDE.md": str(project / "CLAUDE.md"), "AGENTS.md": str(tree / "AGENTS.md")}


def test_home_and_folders_that_are_away_have_no_files_of_a_project(home: Path) -> None:
    home.mkdir(exist_ok=True)
    (home / "CLAUDE.md").write_text(RULE)
    assert files_of_project(home, home) == files_of_project(home / "gone", home) == []


class Kept:
    """A store that notes what it is given."""

    def __init__(self) -> None:
        self.channels: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.dropped = self.refreshed = 0

    def keep_files(self, channel: str, files: list[ProgramFile]) -> None:
        self.channels.put(channel)
        if any(one.key == "GEMINI.md" for one in files):
            raise OSError("the disk is full")

    def drop_files(self) -> None:
        self.dropped += 1

    def refresh_files(self) -> None:
        self.refreshed += 1

    def folders_of_sessions(self) -> list[str]:
        return ["/somewhere/else"]


def test_a_keeper_reads_in_its_thread_and_outlives_a_failure(project: Path, home: Path) -> None:
    kept = Kept()
    keeper = FileKeeper(kept, home)  # type: ignore[arg-type]
    keeper.start()
    (project / "GEMINI.md").write_text(RULE)
    keeper.look(str(project))
    keeper.look(str(home / "other"))
    keeper.stop()
    names = [kept.channels.get_nowait().rpartition("-")[0] for _ in range(3)]
    assert names == ["", "orders", "other"]
    keeper.before_dream()
    assert (kept.channels.qsize(), kept.refreshed) == (2, 1)


def test_switched_off_it_drops_the_copies_and_reads_nothing(home: Path) -> None:
    kept = Kept()
    keeper = FileKeeper(kept, home, enabled=False)  # type: ignore[arg-type]
    keeper.start()
    keeper.look("/somewhere")
    keeper.before_dream()
    keeper.stop()
    assert (kept.dropped, kept.refreshed, kept.channels.qsize()) == (1, 0, 0)
