"""Values of facts in a project's code: found, moved, changed and gone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from dreamd.pipelines.workspace.code_values import CodeLines, kept_places, values_in
from dreamd.store.search.code_places import places_of

FILES = {
    "config/service.toml": '[server]\nlisten = "0.0.0.0:8087"\nmax_stops = 45\n',
    "docker-compose.yml": "services:\n  db:\n    image: postgres:15.4\n",
    "src/ingest.py": "def open_batch(size):\n    return read_batch(size)\n",
    "Makefile": "test:\n\tpytest -q --no-cov\n",
}


def project(folder: Path, changes: Mapping[str, str] | None = None) -> Path:
    for name, text in {**FILES, **(changes or {})}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def gone(folder: Path, fact: str, changes: Mapping[str, str]) -> list[str]:
    """Keep the places of a fact, change the code, and return what the fact names and the code does not any more."""
    kept = places_of(kept_places(fact, CodeLines(project(folder), values_in(fact))))
    assert kept
    return CodeLines(project(folder, changes), values_in(fact), kept).changed(kept)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("the service listens on 8087", ["8087"]),
        ("we run postgres 15.4 since 2026-07-06, at 16:45", ["15.4"]),
        ("use `read_batch`, never openBatch, with --no-cov", ["read_batch", "openBatch", "--no-cov"]),
        ("max 45 stops per tour", ["45"]),
        ("on 28.09.2026 with 3 people", []),
    ],
)
def test_the_values_of_a_text_are_found_and_its_days_are_none(text: str, values: list[str]) -> None:
    assert values_in(text) == values


@pytest.mark.parametrize(
    ("fact", "path", "was", "becomes"),
    [
        ("the service listens on 8087", "config/service.toml", "8087", "8190"),
        ("max 45 stops per tour", "config/service.toml", "45", "60"),
        ("postgres is 15.4", "docker-compose.yml", "15.4", "16.1"),
        ("batches come from read_batch", "src/ingest.py", "read_batch", "take_batch"),
        ("tests run with --no-cov", "Makefile", "--no-cov", ""),
    ],
)
def test_a_changed_value_is_of_the_past(tmp_path: Path, fact: str, path: str, was: str, becomes: str) -> None:
    assert gone(tmp_path, fact, {path: FILES[path].replace(was, becomes)}) == [f"{was} ({path})"]


SERVICE = FILES["config/service.toml"]


@pytest.mark.parametrize(
    ("fact", "changes"),
    [
        ("the service listens on 8087", {"config/service.toml": "# moved\n[server]\n  listen = '0.0.0.0:8087'\n"}),
        ("the service listens on 8087", {"config/service.toml": "", "deploy/service.toml": SERVICE}),
        ("batches come from read_batch", {"src/ingest.py": "", "src/read.py": FILES["src/ingest.py"]}),
        ("postgres is 15.4", {"docker-compose.yml": FILES["docker-compose.yml"] + "  cache:\n    image: redis:7.2\n"}),
    ],
)
def test_a_value_that_moved_or_stands_on_another_line_holds(tmp_path: Path, fact: str, changes: dict[str, str]) -> None:
    assert gone(tmp_path, fact, changes) == []


def test_a_short_number_is_known_only_beside_a_word_of_the_fact(tmp_path: Path) -> None:
    lines = CodeLines(project(tmp_path), ["45"])
    assert kept_places("45 people came to the party", lines) == []
    assert kept_places("max 45 stops per tour", lines) == [
        {"value": "45", "path": "config/service.toml", "line": "max_stops = …"}
    ]


def test_what_was_fetched_or_built_is_not_read(tmp_path: Path) -> None:
    folder = project(tmp_path, {"node_modules/x/a.js": "open(9999)", ".venv/b.py": "x = 9999"})
    (folder / "link.py").symlink_to("/etc/hostname")
    assert CodeLines(folder, ["9999"]).found("it is 9999", "9999") == []


def test_a_project_that_was_not_read_whole_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fact = "tests run with --no-cov"
    kept = places_of(kept_places(fact, CodeLines(project(tmp_path), values_in(fact))))
    monkeypatch.setattr("dreamd.pipelines.workspace.code_values.MOST_FILES", 1)
    after = CodeLines(project(tmp_path, {"Makefile": "test:\n\tpytest -q\n"}), values_in(fact), kept)
    assert after.changed(kept) == []


def test_what_is_no_place_is_left_out() -> None:
    assert places_of([{"value": "1"}, "x", {"value": "8087", "path": "a", "line": "b …"}])[0].path == "a"
    assert places_of("nothing") == []
