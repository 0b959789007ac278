"""The files and commands that a text names, looked for in a project."""

from __future__ import annotations

from pathlib import Path

import pytest
from dreamd.pipelines.stages import staleness
from dreamd.pipelines.stages.staleness import Project


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        ("The user keeps the entry point in `src/app.py`.", ()),
        ("The user keeps the entry point in src/main.py.", ("src/main.py",)),
        ("The user: see `app.py` in src.", ()),
        ("The user runs `make lint` before a push.", ()),
        ("The user runs `make docs` before a push.", ("make docs",)),
        ("To release, run make publish.", ("make publish",)),
        ("The user wants to make sure that it works.", ()),
        ("The user builds with npm run build.", ()),
        ("The user builds with `npm run bundle`.", ("npm run bundle",)),
        ("The docs are at https://example.org/src/none.html and cover TCP/IP.", ()),
        ("The user looks at ../other/secret.py and `/etc/none.conf`.", ()),
        ("All of `src/*.py` and `src/{a,b}.py` are formatted.", ()),
    ],
)
def test_missing_files_and_commands_of_a_text_are_found(folder: Path, text: str, gone: tuple[str, ...]) -> None:
    assert Project([folder]).missing(text) == gone


def test_an_absolute_path_is_looked_for_within_the_project_only(folder: Path) -> None:
    project = Project([folder])
    assert project.missing(f"It is `{folder}/src/none.py`.") == (f"{folder}/src/none.py",)
    assert project.missing(f"It is `{folder.parent}/none/none.py`.") == ()


def test_a_path_may_be_named_from_a_part_of_the_project(folder: Path) -> None:
    (folder / "backend" / "api").mkdir(parents=True)
    (folder / "backend" / "api" / "views.py").write_text("")
    assert Project([folder]).missing("The views are in `api/views.py`.") == ()


def test_no_symbolic_link_is_followed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (folder / "link").symlink_to(tmp_path / "elsewhere")
    (folder / "Makefile").unlink()
    (tmp_path / "elsewhere" / "Makefile").write_text("other:\n")
    (folder / "Makefile").symlink_to(tmp_path / "elsewhere" / "Makefile")
    project = Project([folder])
    assert project.missing("It is `link/none.py`, made by `make lint`.") == ()


def test_the_number_of_lookups_is_bounded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staleness, "MOST_LOOKS", 8)
    looking = Project([folder])
    named = [f"`src/none{n}.py`" for n in range(50)]
    assert 0 < len(looking.missing(" ".join(named))) < 9


def test_make_targets_that_cannot_be_known_count_as_existing(folder: Path) -> None:
    (folder / "Makefile").write_text("include more.mk\nlint:\n")
    assert Project([folder]).missing("Run `make docs`.") == ()
