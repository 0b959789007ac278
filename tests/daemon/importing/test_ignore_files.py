"""Which files a project ignores: as git says of its own, and as `.secretsignore` does beside it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from dreamd.daemon.importing.ignore_files import (
    MAX_BYTES,
    MAX_PATH_CHARS,
    MAX_STARS,
    SECRET,
    IgnoreFiles,
    bounded_patterns,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.examples import examples

_NAMES = st.sampled_from(["a", "b", ".env", ".env.local", "dist", "secrets.yml", "x.log", "keep.log"])
_PATHS = st.lists(_NAMES, min_size=1, max_size=4).map("/".join)
_PATTERNS = st.sampled_from(
    [
        *(".env", ".env.*", "!.env.local", "dist/", "/dist", "a/", "!a/", "a/*", "!a/b", "*.log", "!keep.log", "/*"),
        *("**/b", "a/**", "a/**/x.log", "secrets.y?l", "[ab]", "# dist", "", "b/.env", "\\!a", "!/b/", "x.log "),
    ]
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    subprocess.run(["git", "init", "-q", root], check=True, timeout=20)
    return root


def write(root: Path, **files: str) -> None:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def git_ignores(root: Path, paths: list[str]) -> set[str]:
    """Ask git itself, of files that need not be there."""
    asked = subprocess.run(
        ["git", "-c", "core.excludesFile=", "check-ignore", "--no-index", "--stdin"],
        cwd=root, input="\n".join(paths), capture_output=True, text=True, check=False, timeout=20,
    )  # fmt: skip
    return set(asked.stdout.splitlines())


def test_nested_files_and_exclude_in_the_order_of_git(project: Path) -> None:
    write(project, **{".gitignore": ".env*\n!.env.example\nbuild/\n", "api/.gitignore": "!.env\n/secrets.yml\n"})
    write(project, **{".git/info/exclude": "notes.txt\n"})
    ignore_files = IgnoreFiles()

    def naming(path: str) -> str | None:
        found = ignore_files.naming(path, str(project))
        return found and found[1]

    assert naming(".env.local") == ".gitignore"
    assert naming(".env.example") is None
    assert naming("api/.env") is None
    assert naming("api/secrets.yml") == ".gitignore"
    assert naming("build/deep/out.js") == ".gitignore"
    assert naming("api/notes.txt") == ".git/info/exclude"
    assert ignore_files.naming(str(project / "api/secrets.yml"), None) == ("api/secrets.yml", ".gitignore")
    assert ignore_files.naming("../project/api/x/../secrets.yml", str(project)) is not None


@settings(deadline=None, max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    root=st.lists(_PATTERNS, max_size=6),
    inner=st.lists(_PATTERNS, max_size=3),
    exclude=st.lists(_PATTERNS, max_size=2),
    paths=st.lists(_PATHS, min_size=1, max_size=12, unique=True),
)
def test_it_says_what_git_says(
    project: Path, root: list[str], inner: list[str], exclude: list[str], paths: list[str]
) -> None:
    for name, patterns in ((".gitignore", root), ("a/.gitignore", inner), (".git/info/exclude", exclude)):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text("".join(f"{pattern}\n" for pattern in patterns))
    ours = {path for path in paths if IgnoreFiles().naming(path, str(project))}
    assert ours == git_ignores(project, paths)


def test_a_persons_own_excludes_are_not_read(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, **{".config/git/ignore": "x.txt\n", ".gitconfig": f"[core]\nexcludesFile = {tmp_path}/mine\n"})
    write(tmp_path, mine="x.txt\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / ".config"))
    assert IgnoreFiles().naming("x.txt", str(project)) is None


def test_secretsignore_names_what_git_tracks(project: Path) -> None:
    write(project, **{SECRET: "/config/*.yml\n", ".gitignore": "!config/a.yml\n"})
    assert IgnoreFiles().naming("config/a.yml", str(project)) == ("config/a.yml", SECRET)


def test_a_folder_without_a_repository_has_its_own(tmp_path: Path) -> None:
    write(tmp_path, **{SECRET: "*.pem\n", ".gitignore": ".env\n"})
    assert IgnoreFiles().naming("sub/key.pem", str(tmp_path)) == ("sub/key.pem", SECRET)
    assert IgnoreFiles().naming(str(tmp_path / ".env"), None) is None


def test_a_changed_ignore_file_is_read_again(project: Path) -> None:
    ignore_files = IgnoreFiles()
    assert ignore_files.naming("x.txt", str(project)) is None
    write(project, **{".gitignore": "x.txt\n"})
    assert ignore_files.naming("x.txt", str(project)) is not None
    write(project, **{".gitignore": "another.txt\n"})
    assert ignore_files.naming("x.txt", str(project)) is None


def test_no_link_is_followed_to_an_ignore_file(project: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    write(elsewhere, **{".gitignore": "x.txt\n"})
    (project / ".gitignore").symlink_to(elsewhere / ".gitignore")
    (project / "link").symlink_to(elsewhere)
    assert IgnoreFiles().naming("x.txt", str(project)) is None
    assert IgnoreFiles().naming("link/x.txt", str(project)) is None


def test_a_link_to_an_ignored_file_is_that_file(project: Path) -> None:
    write(project, **{".gitignore": ".env\n", ".env": "KEY=1"})
    (project / "settings.txt").symlink_to(".env")
    assert IgnoreFiles().naming("settings.txt", str(project)) == (".env", ".gitignore")


@pytest.mark.parametrize(
    "path", ["", "/", ".", "..", "~nobody-of-this-name/x", "a\0b", "C:\\x", "x" * 5000, "a/" * 400]
)
def test_any_path_is_bearable(project: Path, path: str) -> None:
    write(project, **{".gitignore": ".env\n"})
    assert IgnoreFiles().naming(path, str(project)) is None
    assert IgnoreFiles().naming(path, "/nowhere/at/all") is None


def test_lines_that_git_would_not_take_are_passed_over(project: Path) -> None:
    (project / ".gitignore").write_bytes(b"\xef\xbb\xbfone.txt\n\\\n\xff\xfe\n!\n/\n[\ntwo.txt\n")
    assert IgnoreFiles().naming("one.txt", str(project)) is not None
    assert IgnoreFiles().naming("two.txt", str(project)) is not None


def test_an_endless_ignore_file_is_read_up_to_a_bound(project: Path) -> None:
    write(project, **{".gitignore": "first.txt\n" + "x" * MAX_BYTES + "\nlast.txt\n"})
    assert IgnoreFiles().naming("first.txt", str(project)) is not None
    assert IgnoreFiles().naming("last.txt", str(project)) is None


@given(st.lists(st.text("a*/!?b", max_size=30), max_size=8))
def test_wildcards_are_bounded_and_never_narrower(lines: list[str]) -> None:
    kept = list(bounded_patterns(lines))
    assert all(len([piece for piece in pattern.split("*") if piece]) <= MAX_STARS + 1 for pattern in kept)
    assert all(any(line.startswith(pattern) for line in lines) for pattern in kept)


def test_a_pattern_of_many_stars_still_names_its_files(project: Path) -> None:
    write(project, **{".gitignore": "*a*b*c*d*e\n!" + "*a" * 20 + "\n"})
    assert IgnoreFiles().naming("1a2b3c4d5e", str(project)) is not None
    assert IgnoreFiles().naming("a" * (MAX_PATH_CHARS - 1), str(project)) is None
