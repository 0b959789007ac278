from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from dreamd.pipelines.stages import staleness
from dreamd.pipelines.workspace.snapshot import History
from dreamd.store import okf
from dreamd.store.model import Memory
from dreamd.store.text import dates

from tests import memories
from tests.pipelines.fakes import MAY_8, NOW, FakeSource

DAY = timedelta(days=1)


def fact(text: str, *, said: datetime = MAY_8, **fields: Any) -> Memory:
    defaults: dict[str, Any] = {"tense": "current", "sources": ("s1#1",), "created_at": said}
    return memories.fact(text, **(defaults | fields))


def source_of(*facts: Memory, folder: Path | None = None) -> FakeSource:
    source = FakeSource()
    source.ran_in = {"proj": [folder]} if folder else {}
    for each in facts:
        source.files[each.path] = okf.from_memory(each)
    return source


def night(source: FakeSource, history: History | None = None, now: datetime = NOW) -> tuple[list[str], History]:
    """What one dream says of the facts that it marks, and what the next one knows."""
    view = source.view(history)
    planned = staleness.plan(view, now)
    view.apply(planned.actions, planned.cursors)
    return [action.reason for action in planned.actions], source.take(view)


def meta(source: FakeSource, memory: Memory) -> dict[str, object]:
    return dict(okf.parse(source.files[memory.path]).meta)


# ---- what is in the project


# ---- facts about it


def test_a_fact_whose_file_is_gone_is_marked_and_unmarked_when_it_is_back(folder: Path) -> None:
    one = fact("The user keeps the entry point in `src/app.py`.")
    source = source_of(one, folder=folder)
    before = source.files[one.path]
    assert night(source)[0] == []
    (folder / "src" / "app.py").rename(folder / "src" / "kept")
    reasons, history = night(source)
    assert reasons == ["src/app.py is not in the project any more"]
    marked = meta(source, one)
    assert (marked["tense"], marked["gone"], marked["status"]) == ("past", ["src/app.py"], "stable")
    assert okf.instant(marked["stale_after"]) == NOW
    assert night(source, history, NOW + DAY)[0] == []
    (folder / "src" / "kept").rename(folder / "src" / "app.py")
    reasons, history = night(source, history, NOW + 2 * DAY)
    assert reasons == ["what it names exists again"]
    assert source.files[one.path] == before
    (folder / "src" / "app.py").unlink()
    assert len(night(source, history, NOW + 3 * DAY)[0]) == 1


def test_a_mark_that_a_person_removed_is_not_set_again(folder: Path) -> None:
    one = fact("The user keeps the entry point in `src/main.py`.")
    source = source_of(one, folder=folder)
    before = source.files[one.path]
    _, history = night(source)
    source.files[one.path] = before
    assert night(source, history, NOW + DAY)[0] == []


def test_a_mark_that_was_undone_is_not_made_again(folder: Path) -> None:
    source = source_of(fact("The user keeps the entry point in `src/main.py`."), folder=folder)
    marks = {action.fingerprint or "" for action in staleness.plan(source.view(), NOW).actions}
    assert len(marks) == 1
    assert night(source, History(frozenset(marks)))[0] == []


@pytest.mark.parametrize(
    "of",
    [
        {"tense": "past"},
        {"tense": "future"},
        {"run": None},
        {"extra": {"verified": [{"by": "human:ann"}]}},
        {"extra": {"stale_after": "2030-01-01"}},
        {"status": "deprecated"},
    ],
)
def test_past_and_future_facts_and_those_of_a_person_are_not_marked(folder: Path, of: dict[str, object]) -> None:
    one = fact("The user keeps the entry point in `src/main.py`.", **of)  # type: ignore[arg-type]
    source = source_of(one, folder=folder)
    assert night(source)[0] == []


def test_an_empty_or_missing_project_folder_marks_nothing(tmp_path: Path) -> None:
    one = fact("The user keeps the entry point in `src/main.py`.")
    assert night(source_of(one))[0] == []
    assert night(source_of(one, folder=tmp_path))[0] == []


def test_the_number_of_marks_in_a_run_is_bounded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staleness, "MOST_MARKED", 3)
    source = source_of(*(fact(f"The user has `src/none{n}.py`.") for n in range(5)), folder=folder)
    reasons, history = night(source)
    assert len(reasons) == 3
    assert len(night(source, history)[0]) == 2


# ---- facts about a time


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("Ann will start on 3 May 2024.", date(2024, 5, 3)),
        ("Ann will start on 3 May.", date(2024, 5, 3)),
        ("Ann will start on June 2nd.", date(2023, 6, 2)),
        ("On 8 May 2023 Ann said that she will move in June 2024.", date(2024, 6, 30)),
        ("Ann will move in 2025.", date(2025, 12, 31)),
        ("Ann will go hiking tomorrow.", date(2023, 5, 9)),
        ("Ann will go hiking on 31 June 2023.", None),
        ("Ann may move, and will march on.", None),
        ("Ann will go hiking.", None),
    ],
)
def test_the_deadline_is_the_last_day_that_a_text_names(text: str, last: date | None) -> None:
    assert dates.last_named(text, MAY_8.date()) == last


def test_a_future_fact_becomes_past_after_its_day() -> None:
    one = fact("Ann will start on 3 May 2024.", tense="future")
    later = fact("Ann will move in 2031.", tense="future")
    source = source_of(one, later)
    body = okf.parse(source.files[one.path]).body
    assert night(source, now=datetime(2024, 5, 4, 3, tzinfo=UTC))[0] == []
    reasons, history = night(source, now=datetime(2024, 5, 6, 3, tzinfo=UTC))
    assert reasons == ["3 May 2024 has passed"]
    assert (meta(source, one)["tense"], okf.parse(source.files[one.path]).body) == ("past", body)
    assert meta(source, later)["tense"] == "future"
    assert night(source, history)[0] == []


def test_a_fact_becomes_past_after_its_stale_after() -> None:
    one = fact("The code of the door is 4711.", extra={"stale_after": "2026-11-20T00:00:00+00:00"})
    source = source_of(one)
    assert night(source, now=NOW - 3 * DAY)[0] == []
    reasons, history = night(source)
    assert reasons == ["it held until 20 November 2026"]
    assert meta(source, one)["tense"] == "past"
    source.files[one.path] = okf.edit(source.files[one.path], {"tense": "current"})
    assert night(source, history, NOW + DAY)[0] == []


@pytest.mark.parametrize(
    ("text", "reasons"),
    [
        ("Always run make docs before a push.", ["make docs is not in the project any more"]),
        ("Build it with npm run bundle.", ["npm run bundle is not in the project any more"]),
        ("Always run make lint before a push.", []),
        ("Always use make sure as a phrase.", []),
        ("We make bread, and run late.", []),
    ],
)
def test_a_command_that_is_gone_is_looked_up_in_plain_words_too(folder: Path, text: str, reasons: list[str]) -> None:
    assert night(source_of(fact(text), folder=folder))[0] == reasons


# ---- values in the code


def test_a_value_that_the_code_has_no_more_makes_its_fact_past_and_back(folder: Path) -> None:
    settings = folder / "service.toml"
    settings.write_text('listen = "0.0.0.0:8087"\n')
    one = fact("The service listens on 8087.")
    source = source_of(one, folder=folder)
    reasons, history = night(source)
    assert reasons == ["where its values stand in the code"]
    assert meta(source, one)["held_at"] == [{"value": "8087", "path": "service.toml", "line": 'listen = "0.0.0.0:…"'}]
    assert night(source, history, NOW + DAY)[0] == []
    settings.write_text('listen = "0.0.0.0:8190"\n')
    reasons, history = night(source, history, NOW + DAY)
    assert reasons == ["8087 (service.toml) is not in the project any more"]
    assert (meta(source, one)["tense"], meta(source, one)["status"]) == ("past", "stable")
    settings.write_text('listen = "0.0.0.0:8087"\n')
    reasons, history = night(source, history, NOW + 2 * DAY)
    assert reasons == ["what it names exists again"]
    assert meta(source, one)["tense"] == "current"
