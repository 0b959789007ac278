"""Know-how: the page of the commands that worked in several sessions, and those of procedures."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from dreamd.pipelines.gate.action_checks import ActionChecker
from dreamd.pipelines.settings import PipelineSettings, PromotionSettings
from dreamd.pipelines.stages import know_how, profiles
from dreamd.pipelines.workspace.snapshot import History
from dreamd.pipelines.workspace.view import View
from dreamd.store import okf
from dreamd.store.model import SKILL, SKILL_DRAFT, STRATEGY, Action, Kind, Level, Memory
from dreamd.store.okf.file import conformance

from tests.pipelines.fakes import NOW, FakeSource

WORKED = (
    ("assistant", "[Edit /x/a.py]"),
    ("assistant", "[Bash: cd /x && uv run pytest -q 2>&1]"),
    ("tool", "[Bash result]\n3 passed"),
    ("assistant", "[Bash: git status]"),
    ("tool", "[Bash result]\nclean"),
)
FAILED = (*WORKED[:2], ("tool", "[Bash failed]\n1 failed"))


def dreamt(source: FakeSource, history: History | None = None) -> tuple[History, list[Action]]:
    view = source.view(history)
    planned = know_how.plan(view, NOW)
    view.apply(planned.actions, planned.cursors)
    return source.take(view), planned.actions


def page_of(action: Action) -> Memory:
    assert conformance(action.path, action.content or b"") == []
    return okf.to_memory(action.path, okf.parse(action.content or b""))


def test_commands_that_worked_in_several_sessions_after_an_edit_have_a_page() -> None:
    source = FakeSource()
    source.add("s1", *WORKED)
    source.add("s2", *WORKED)
    _, (action,) = dreamt(source)
    page = page_of(action)
    assert (page.title, page.kind, page.sources) == (know_how.TITLE, Kind.PROCEDURE, ("s2#2",))
    assert "- `uv run pytest -q`: worked in 2 sessions, last on 8 May 2023 [^t1]" in page.text
    assert "git status" not in page.text  # every machine has it


def test_a_command_of_one_session_or_one_that_failed_is_none() -> None:
    source = FakeSource()
    source.add("s1", *WORKED)
    source.add("s2", *FAILED)
    source.add("s3", *WORKED[1:])  # before any edit: it says nothing about how work is checked here
    assert dreamt(source)[1] == []


def test_the_page_follows_its_sessions_and_goes_with_them() -> None:
    source = FakeSource()
    source.add("s1", *WORKED)
    source.add("s2", *WORKED)
    history, _ = dreamt(source)
    assert dreamt(source, history)[1] == []  # nothing has grown
    source.add("s3", *WORKED)
    history, (action,) = dreamt(source, history)
    assert "worked in 3 sessions" in page_of(action).text
    source.add("s2", *FAILED)
    source.add("s3", *FAILED)
    _, (action,) = dreamt(source, history)
    assert page_of(action).is_archived


RELEASED = (
    ("user", "please release the next version"),
    ("assistant", "[Edit /x/CHANGELOG.md]"),
    ("assistant", "[Bash: uv run pytest -q 2>&1]"),
    ("tool", "[Bash result]\n3 passed"),
    ("assistant", "[Bash: git tag v0.4.0 && git push origin v0.4.0]"),
    ("tool", "[Bash result]\n* [new tag]"),
    ("assistant", "[Bash: ./ship.sh prod]"),
    ("tool", "[Bash result]\nshipped"),
)
CORRECTED = (
    *RELEASED,
    ("assistant", "Version 0.4.0 is tagged, pushed and shipped to production."),
    ("user", "No, that is wrong: we never ship to production by hand."),
)


def strategies(actions: list[Action]) -> list[Memory]:
    return [page for page in map(page_of, actions) if STRATEGY in page.tags]


def of_sessions(*said: tuple[tuple[str, str], ...]) -> FakeSource:
    source = FakeSource()
    for number, turns in enumerate(said, start=1):
        source.add(f"s{number}", *turns)
    return source


def test_a_procedure_that_worked_three_times_has_a_page_that_quotes_its_last_run() -> None:
    (page,) = strategies(dreamt(of_sessions(RELEASED, RELEASED, RELEASED))[1])
    assert (page.title, page.kind) == ("please release the next version", Kind.PROCEDURE)
    assert page.text.count("“please release the next version”") == 1
    assert "1. `uv run pytest -q`, exit 0 [^t1]\n2. `git tag v0.4.0`, exit 0 [^t2]\n3. `git push" in page.text
    assert "Worked in 3 sessions, last on 8 May 2023." in page.text
    assert page.sources[0] == "s3#3"
    assert SKILL_DRAFT in page.tags


def test_a_skill_is_offered_only_of_steps_that_were_the_same_word_for_word() -> None:
    def of_version(version: str) -> tuple[tuple[str, str], ...]:
        return tuple((role, text.replace("v0.4.0", version)) for role, text in RELEASED)

    cut = tuple((role, text.replace("ship.sh prod", 'ship.sh prod -m "The notes')) for role, text in RELEASED)
    (page,) = strategies(dreamt(of_sessions(cut, cut, cut))[1])
    assert SKILL_DRAFT not in page.tags
    (page,) = strategies(dreamt(of_sessions(*map(of_version, ("v0.4.0", "v0.5.0", "v0.6.0", "v0.6.0"))))[1])
    assert "2. `git tag v0.6.0`" in page.text
    assert SKILL_DRAFT not in page.tags
    source = of_sessions(RELEASED, RELEASED, RELEASED)
    history, actions = dreamt(source)
    (page,) = strategies(actions)
    source.files[page.path] = okf.edit(source.files[page.path], {"tags": [STRATEGY, "releases", SKILL_DRAFT]})
    source.add("s4", *of_version("v0.5.0"))
    (renewed,) = strategies(dreamt(source, history)[1])
    assert renewed.tags == (STRATEGY, "releases")


def test_of_two_runs_the_requests_are_alike_or_there_is_no_page() -> None:
    other = (("user", "fix the flaky test of the queue"), *RELEASED[1:])
    assert strategies(dreamt(of_sessions(RELEASED, other))[1]) == []
    (page,) = strategies(dreamt(of_sessions(RELEASED, RELEASED))[1])
    assert SKILL_DRAFT not in page.tags


def test_what_its_person_corrected_is_no_draft_and_then_no_page() -> None:
    (page,) = strategies(dreamt(of_sessions(RELEASED, RELEASED, RELEASED, CORRECTED))[1])
    assert "its person put 1 more right" in page.text
    assert SKILL_DRAFT not in page.tags
    assert strategies(dreamt(of_sessions(RELEASED, CORRECTED, CORRECTED))[1]) == []


def test_a_page_goes_on_and_a_decision_about_its_skill_stands() -> None:
    source = of_sessions(RELEASED, RELEASED, RELEASED)
    history, actions = dreamt(source)
    (page,) = strategies(actions)
    decided = okf.edit(source.files[page.path], {SKILL: {}, "tags": [STRATEGY]})
    source.files[page.path] = decided
    source.add("s4", *RELEASED)
    (renewed,) = strategies(dreamt(source, history)[1])
    assert renewed.node_id == page.node_id
    assert "Worked in 4 sessions" in renewed.text
    assert SKILL_DRAFT not in renewed.tags


def test_a_skill_that_the_rules_would_not_offer_now_is_withdrawn_though_nothing_was_run_again() -> None:
    cut = tuple((role, text.replace("ship.sh prod", 'ship.sh prod -m "The notes')) for role, text in RELEASED)
    source = of_sessions(cut, cut, cut)
    history, actions = dreamt(source)
    (page,) = strategies(actions)
    offered = okf.edit(source.files[page.path], {"tags": [STRATEGY, SKILL_DRAFT, "releases"]})
    source.files[page.path] = offered
    before = ActionChecker(source.view(history), NOW)
    history, (action,) = dreamt(source, history)
    withdrawn = page_of(action)
    assert (withdrawn.tags, withdrawn.text) == ((STRATEGY, "releases"), page.text)
    assert before.check([action])[0] == []
    assert dreamt(source, history)[1] == []
    source.files[page.path] = offered.replace(b"Worked in 3", b"Worked for me in 3")  # a person's text stays
    assert dreamt(source, history)[1] == []


def test_the_gate_lets_pages_of_what_was_run_pass_and_no_others() -> None:
    source = of_sessions(RELEASED, RELEASED, RELEASED)
    actions = know_how.plan(source.view(), NOW).actions
    assert len(actions) == 2
    assert ActionChecker(source.view(), NOW).check(actions)[0] == []
    invented = [replace(one, content=re.sub(rb"`[^`]+`", b"`rm -r everything`", one.content or b"")) for one in actions]
    (reason,) = ActionChecker(source.view(), NOW).check(invented)[0]
    assert "are not supported by their sources" in reason


# ---- what a person works with

WORK = (
    ("assistant", "[Edit /x/store.go]"),
    ("assistant", "[Bash: cd /x && golangci-lint run 2>&1]"),
    ("tool", "[Bash result]\nok"),
    ("assistant", "[Bash: ls]"),
    ("tool", "[Bash result]\na"),
)


def counted(source: FakeSource, history: History | None = None) -> tuple[View, list[Action]]:
    view = source.view(history)
    planned = know_how.worked_with(view, NOW)
    view.apply(planned.actions, planned.cursors)
    return view, planned.actions


def worked(source: FakeSource, history: History | None = None) -> list[Memory]:
    _, actions = counted(source, history)
    assert ActionChecker(source.view(history), NOW).check(actions)[0] == []
    return [okf.to_memory(action.path, okf.parse(action.content or b"")) for action in actions]


def test_what_is_used_in_several_projects_has_a_page_with_its_counts() -> None:
    source = FakeSource()
    for number, channel in enumerate(("shop-a1b2c3", "shop-d4e5f6", "blog-a1b2c3/@ana", "site-a1b2c3/@ana")):
        source.add(f"s{number}", *WORK, channel=channel, at=NOW)
    source.add("s8", *WORK, channel="_global", at=NOW)
    assert worked(source) == []  # of each person of one project, or of two sessions
    source.add("s9", *WORK, channel="wiki-a1b2c3", at=NOW + timedelta(days=3))
    (page,) = worked(source)
    assert (page.title, page.channel, page.level) == ("Worked with", "_global", Level.PROFILE)
    assert page.text.startswith(
        "## Languages\n\n- Go, as in `store.go`: 2 projects, 3 sessions, 21 November 2026 to 24 November 2026 [^t1]\n\n"
        "## Tools\n\n- `golangci-lint`: 2 projects, 3 sessions, 21 November 2026 to 24 November 2026 [^t2]\n"
    )
    assert "`ls`" not in page.text


def prompts(source: FakeSource, channels: Sequence[str], *said: str) -> None:
    for number, channel in enumerate(channels):
        source.add(f"p{number}", *(("user", text) for text in said * 9), channel=channel, at=NOW)


def test_how_a_person_writes_in_several_projects_has_a_page_with_its_counts() -> None:
    source = FakeSource()
    german = "die Abfrage ist mit dem neuen Index nicht schneller"
    prompts(
        source,
        ("shop-a1b2c3", "shop-d4e5f6", "blog-a1b2c3"),
        german,
        german,
        "the index is on for the report",
        "/clear",
    )
    (page,) = worked(source)
    assert (page.title, page.channel, page.level) == ("Style", "_global", Level.PROFILE)
    assert page.text.startswith(
        "- Of 81 prompts of 6 words or more 54 are plainly in German, 27 in English [^t1]\n"
        "- Of 81 prompts half have 51 characters or fewer, nine in ten 51 or fewer [^t2]\n"
    )


def test_of_few_prompts_or_one_project_nothing_is_told_and_no_language_of_which_little_is_known() -> None:
    unknown = "la facture du mois dernier part encore au mauvais client"
    source = FakeSource()
    prompts(source, ("shop-a1b2c3", "shop-d4e5f6"), unknown, unknown, unknown)
    assert worked(source) == []
    source = FakeSource()
    prompts(source, ("shop-a1b2c3", "blog-a1b2c3"), unknown, unknown)
    assert worked(source) == []
    source = FakeSource()
    prompts(source, ("shop-a1b2c3", "blog-a1b2c3"), unknown, unknown, unknown)
    (page,) = worked(source)
    assert page.text.startswith("- Of 54 prompts half have")


def test_what_is_private_or_one_project_s_is_on_no_page() -> None:
    source = FakeSource()
    for number, channel in enumerate(("shop-a1b2c3", "blog-a1b2c3", "blog-a1b2c3")):
        source.add(f"s{number}", *WORK, channel=channel, at=NOW)
    assert len(worked(source)) == 1
    assert worked(source, History(channels_off=frozenset({"blog-a1b2c3"}))) == []
    view = source.view()
    view.settings = PipelineSettings(promotion=PromotionSettings(private=("shop-a1b2c3",)))
    assert know_how.worked_with(view, NOW).actions == []


def test_no_other_stage_puts_the_page_away_and_it_grows_with_its_sessions() -> None:
    source = FakeSource()
    for number, channel in enumerate(("shop-a1b2c3", "blog-a1b2c3", "blog-a1b2c3")):
        source.add(f"s{number}", *WORK, channel=channel, at=NOW)
    view, _ = counted(source)
    assert profiles.plan(view, NOW).actions == []
    history = source.take(view)
    assert counted(source, history)[1] == []
    source.add("s7", *WORK, channel="wiki-a1b2c3", at=NOW)
    (page,) = worked(source, history)
    assert "3 projects, 4 sessions" in page.text


def test_a_page_that_is_put_away_is_not_put_away_again() -> None:
    source = FakeSource()
    for number, channel in enumerate(("shop-a1b2c3", "blog-a1b2c3", "blog-a1b2c3")):
        source.add(f"s{number}", *WORK, channel=channel, at=NOW)
    view, _ = counted(source)
    history = source.take(view)
    del source.said["s2"]
    view, (gone,) = counted(source, history)
    assert gone.reason == "too few sessions show it"
    history = source.take(view)
    source.add("s3", ("user", "Good morning"), channel="shop-a1b2c3", at=NOW)
    assert counted(source, history)[1] == []
