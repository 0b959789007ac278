"""Reading acts from notes, and the keys by which they are found again."""

from __future__ import annotations

import pytest
from dreamd.store.text.acts import (
    Act,
    acts_in,
    call_of,
    command_key,
    edits_between,
    error_key,
    error_keys,
    file_key,
    files_named,
    later_success,
    names_of_path,
    result_of,
)
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("note", "call"),
    [
        ("[Bash: pytest -q]", ("Bash", "pytest -q")),
        ("[Edit /a/b.py]", ("Edit", "/a/b.py")),
        ("[TaskOutput]", ("TaskOutput", "")),
        ("[Bash: echo [1]]", ("Bash", "echo [1]")),
        ("[1] is a footnote", None),
        ("Look at [this](x).", None),
    ],
)
def test_the_note_of_a_call_is_read(note: str, call: tuple[str, str] | None) -> None:
    assert call_of(note) == call


def test_the_note_of_a_result_is_read() -> None:
    assert result_of("[Bash failed]\nExit code 1\nno") == ("Bash", True, "Exit code 1\nno")
    assert result_of("[Bash result]\nok") == ("Bash", False, "ok")
    assert result_of("[Bash: ls]") is None


def test_results_belong_to_the_last_calls_of_a_row() -> None:
    turns = ["[Bash: git add .]", "[Bash: make]", "[Edit /a.py]", "[Bash failed]\nbroken", "Why?", "[Bash result]\nok"]
    acts = acts_in(enumerate(turns))
    assert [(act.words, act.ended_at, act.failed) for act in acts] == [
        ("git add .", 3, True),
        ("make", 5, False),
        ("/a.py", None, False),
    ]
    alone = acts_in(enumerate(["[Bash: git add .]", "[Bash: make]", "[Bash failed]\nbroken"]))
    assert [act.failed for act in alone] == [False, True]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "src/a.go:12:3: Error return value is not checked (errcheck)",
            "b/c.go:7:1: Error return value is not checked (errcheck)",
        ),
        ('error: prepared statement "sqlx_s_4" already exists', 'error: prepared statement "sqlx_s_17" already exists'),
        ("fatal: unable to read e53647ba1f1e5203", "fatal: unable to read 0123456789abcdef0"),
        ("\x1b[31mpanic: unknown time zone Africa/Lagos\x1b[0m", "panic: unknown time zone Africa/Lagos"),
        ("cannot open /home/ann/src/x/conf.toml now, sorry", "cannot open /srv/x/conf.toml now, sorry"),
    ],
)
def test_an_error_has_one_key_wherever_it_comes_up(one: str, other: str) -> None:
    assert error_key(one) == error_key(other) != ""


@pytest.mark.parametrize(
    "line", ["[lint] ERROR task failed", "FAIL x.io/cli 1.9s", "exit status 1", "Traceback (most recent call last):"]
)
def test_what_ends_every_failing_run_is_no_key(line: str) -> None:
    assert error_keys(line) == []


def test_a_code_keeps_its_digits() -> None:
    assert (
        error_key("main.go:3: G304: Potential file inclusion via variable")
        == "G304: Potential file inclusion via variable"
    )
    assert error_key("error: name is already taken, code 42P05") != error_key(
        "error: name is already taken, code 42P06"
    )


def test_only_lines_that_state_an_error_are_keys_of_an_output() -> None:
    output = (
        'running 3 tests\ntest one ... ok\nerror: relation "depots" does not exist\nnote: run with RUST_BACKTRACE=1'
    )
    assert error_keys(output) == ['error: relation "depots" does not exist']


@given(st.text(max_size=400))
def test_any_output_has_few_keys_of_bounded_length(text: str) -> None:
    keys = error_keys(text)
    assert len(keys) <= 4
    assert all(0 < len(key) <= 400 for key in keys)


def test_a_file_has_one_key_in_every_clone() -> None:
    assert (
        file_key("/home/a/cli/.worktrees/2/cmd/cli/state.go")
        == file_key("/home/a/cli/cmd/cli/state.go")
        == "cli/state.go"
    )
    assert file_key("state.go") == "state.go"


def test_a_command_has_the_key_of_its_program() -> None:
    assert command_key("cd /x && CGO=0 go test -v ./...") == "go test"
    assert command_key("mise run fmt && mise run lint 2>&1 | tail -5") == "mise run lint"
    assert command_key("/usr/bin/make") == "make"


def test_a_text_names_files_and_folders() -> None:
    text = "put it in `src/model.rs`, never edit .sqlx by hand; migrations/ is generated, see https://a.example/b.html"
    assert files_named(text) == ["model.rs", ".sqlx/", ".sqlx", "migrations/"]
    assert files_named("use json.loads(x), e.g. at night") == ["e.g"]
    assert {"query-1.json", ".sqlx/"} <= {*names_of_path("/home/t/waybill/.sqlx/query-1.json")}


def test_the_next_success_of_the_same_command_ends_a_failure() -> None:
    turns = [
        *(
            "[Bash: go test ./a]",
            "[Bash failed]\nno",
            "[Edit /x/a.go]",
            "[Edit /x/a.go]",
            "[Bash: ls]",
            "[Bash result]\na",
        ),
        *("[Bash: go test -run One ./a]", "[Bash result]\nok"),
    ]
    acts = acts_in(enumerate(turns))
    worked = later_success(acts, acts[0])
    assert worked is not None
    assert worked.words == "go test -run One ./a"
    assert [act.words for act in edits_between(acts, 1, worked.at)] == ["/x/a.go"]
    assert later_success(acts, Act("Bash", "cargo run", 0)) is None
