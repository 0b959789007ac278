"""Procedures: rows of commands that several sessions ran in one order."""

from __future__ import annotations

from collections.abc import Sequence

from dreamd.pipelines.extract.procedures import Procedure, procedures_of, step_runs

from tests.pipelines.fakes import turns

CHECK, TAG, SHIP = "uv run pytest -q", "git tag v0.4.1", "./ship.sh prod"
Said = tuple[str, str]


def ran(command: str, outcome: str = "result", output: str = "ok") -> tuple[Said, Said]:
    return ("assistant", f"[Bash: {command}]"), ("tool", f"[Bash {outcome}]\n{output}")


def released(version: int, *, before: Sequence[Said] = (), fails: str = "") -> list[Said]:
    steps = (CHECK, f"git tag v0.{version}.0", f"git push origin v0.{version}.0", SHIP)
    run = [turn for step in steps for turn in ran(step, "failed" if step == fails else "result")]
    return [("user", "release it please"), ("assistant", "[Edit /x/CHANGELOG.md]"), *before, *run]


def found_in(*sessions: Sequence[Said]) -> list[Procedure]:
    return procedures_of({f"s{n}": step_runs(turns(*said, session_id=f"s{n}")) for n, said in enumerate(sessions)})


def test_a_row_of_several_sessions_is_a_procedure_without_what_differs() -> None:
    looked = [turn for command in ("git status", "cat notes.md", "ls dist") for turn in ran(command)]
    (procedure,) = found_in(released(4), released(5, before=looked), released(6))
    assert procedure.keys == ("uv run pytest", "git tag v#.#.#", "git push origin v#.#.#", "./ship.sh prod")
    assert [run.session_id for run in procedure.runs] == ["s0", "s1", "s2"]
    assert [step.command for step in procedure.runs[-1].steps][1] == "git tag v0.6.0"


def test_commands_in_a_row_and_in_quotes_are_read_as_the_shell_does() -> None:
    steps = step_runs(turns(*ran('cd /x && make lint 2>&1 | tail -3 && git commit -m "a; b && c" && git push')))
    assert [(step.words, step.command) for step in steps] == [
        (("make", "lint"), "make lint 2>&1 | tail -3"),
        (("git", "commit"), 'git commit -m "a; b && c"'),
        (("git", "push"), "git push"),
    ]
    (commit,) = step_runs(turns(*ran("git commit -m \"$(cat <<'EOF'")))
    assert commit.command == "git commit -m …"


def test_an_exit_is_a_command_s_own_or_it_is_not_sure() -> None:
    steps = step_runs(turns(*ran("make lint && make test | tail -3; git push")))
    assert [step.is_sure for step in steps] == [True, False, True]
    hidden = ran("make test | tail -3", output="FAIL: cannot find module './queue'")
    assert step_runs(turns(*hidden)) == []
    assert step_runs(turns(*ran("make lint && make test", "failed", "1 failed"))) == []


def test_a_command_without_output_worked_if_its_agent_went_on_by_itself() -> None:
    quiet = ("assistant", "[Bash: git add -A]")
    went_on = step_runs(turns(quiet, *ran("git commit -m x")))
    stopped = step_runs(turns(quiet, ("user", "no, stop"), *ran("git commit -m x")))
    assert [step.words[1] for step in went_on] == ["add", "commit"]
    assert [step.words[1] for step in stopped] == ["commit"]


def test_what_every_machine_does_and_what_one_session_did_is_none() -> None:
    ritual = [turn for command in ("git add -A", "git commit -m x", "git push") for turn in ran(command)]
    assert found_in(ritual, ritual, ritual) == []
    assert found_in(released(4)) == []


def test_a_step_that_half_of_the_runs_lack_is_left_out() -> None:
    once = list(ran("npm run preview"))
    (procedure,) = found_in(released(4, before=once), released(5), released(6), released(7))
    assert "npm run preview" not in procedure.keys


def test_work_is_a_circle_that_begins_behind_an_edit() -> None:
    def worked() -> list[Said]:
        return [
            ("assistant", "[Edit /x/a.py]"),
            *(turn for step in ("mise run fmt", "mise run lint", "git commit -m x") for turn in ran(step)),
        ]

    (procedure,) = found_in(*[[*ran("git commit -m w"), *worked(), *worked(), *ran("git log")] for _ in range(3)])
    assert procedure.keys == ("mise run fmt", "mise run lint", "git commit")


def test_failures_on_the_way_are_counted() -> None:
    again = [("assistant", f"[Bash: {CHECK}]"), ("tool", "[Bash failed]\n1 failed")]
    tried = [*released(5)[:2], *ran("mise run fmt"), *again, *released(5)[2:]]
    first = [*released(4)[:2], *ran("mise run fmt"), *released(4)[2:]]
    (procedure,) = found_in(first, tried, first)
    assert procedure.keys[:2] == ("mise run fmt", "uv run pytest")
    assert [run.failures[1] for run in procedure.runs] == [0, 1, 0]


def test_a_step_that_failed_in_the_last_two_sessions_is_left_out() -> None:
    well, badly = [released(n) for n in (4, 5, 6)], [released(n, fails=SHIP) for n in (7, 8)]
    assert found_in(*well, *badly[:1])[0].left_out == ()
    (procedure,) = found_in(*well, *badly)
    assert procedure.left_out == ("./ship.sh prod",)
    assert len(procedure.runs) == 5
