"""Reading acts from notes, and the keys by which they are found again."""

from __future__ import annotations

import pytest
from dreamd.store.text.acts import (
    Act,
    acts_in,
    call_of,
    command_key,
    ending_of,
    error_key,
    error_keys,
    file_key,
    files_named,
    is_like,
    lines_of_errors,
    names_of_path,
    names_path,
    place_of_error,
    result_of,
    values_named,
    without_removed_lines,
)
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("note", "call"),
    [
        ("[Bash: pytest -q]", ("Bash", "pytest -q")),
        ("[Edit /a/b.py]", ("Edit", "/a/b.py")),
        ("[Edit /a/b.py\n- x = [1]\n+ x = [2]]", ("Edit", "/a/b.py")),
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


def test_an_edit_has_the_lines_that_it_changed() -> None:
    [act] = acts_in([(3, "[Edit /a/b.py\n- x = [1]\n+ x = [2]]")])
    assert act == Act("Edit", "/a/b.py", 3, change="- x = [1]\n+ x = [2]")


def test_a_log_and_the_source_that_a_compiler_shows_are_no_errors() -> None:
    output = (
        "2026/02/09 WARN failed to delete the orphaned branch abc\n"
        "a.go:68:13: Error return value of `Read` is not checked (errcheck)\n"
        "\tid, _ := paths.Read() // the error says nothing here\n"
        "\t           ^\n"
    )
    [line] = lines_of_errors(output)
    assert line.startswith("a.go:68:13: Error return value")
    assert "paths.Read()" in place_of_error(output, error_keys(output)[0])


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("a_test.go:132:9: undefined: errors", "undefined: errors"),
        ("unknown flag: --stat", "unknown flag: --stat"),
        ("error: failed", ""),
    ],
)
def test_a_name_or_an_option_makes_a_short_error_enough(line: str, key: str) -> None:
    assert error_key(line) == key


UNDEFINED = "[Bash failed]\nExit code 1\na.go:3:1: undefined: errors"


@pytest.mark.parametrize(
    ("text", "path", "is_named"),
    [
        ("never edit src/db.rs by hand", "/home/t/waybill/src/db.rs", True),
        ("never edit db.rs by hand", "/home/t/waybill/src/db.rs", True),
        ("commit .entire/settings.json", "/home/t/cli/.claude/settings.json", False),
        ("never edit .sqlx/ by hand", "/home/t/waybill/.sqlx/query-1.json", True),
        ("never edit web/logo.svg", "/home/t/waybill/src/db.rs", False),
    ],
)
def test_a_text_names_a_path_with_the_folders_that_it_says(text: str, path: str, is_named: bool) -> None:
    assert names_path(text, path) is is_named


def test_a_number_is_a_value_beside_the_word_that_it_counts() -> None:
    assert values_named("penalty 12 per minute") & values_named("const latePenalty = 12.0 // a minute") == {
        "12 penalti"
    }
    assert not values_named("let's address 1 first") & values_named("x := parts[1]")
    assert values_named('this won\'t say "Claude Code"') & values_named('agentType := "Claude Code"') == {"claude code"}


def test_the_next_run_without_an_error_ends_it() -> None:
    turns = [
        *("[Bash: go test ./a]", UNDEFINED, "[Edit /x/a.go]", "[Bash: go test ./a]", UNDEFINED, "[Edit /x/b.go]"),
        *("[Bash: ls]", "[Bash result]\na", "[Bash: go test -run One ./a]", "[Bash failed]\nit panicked"),
    ]
    acts = acts_in(enumerate(turns))
    end = ending_of(acts, acts[0], "undefined: errors")
    assert end is not None
    assert (end.words, end.at) == ("go test -run One ./a", 8)
    assert ending_of(acts[:-1], acts[0], "undefined: errors") is None


@pytest.mark.parametrize(
    ("note", "left"),
    [
        ("[Edit /x/a.md\n- The port is 8080.\n+ The port is 8181.]", "[Edit /x/a.md] The port is 8181."),
        ("[Edit: a.md\n- - a\n- b[0]\n+ - c\n+ - d[0]]", "[Edit: a.md] - c - d[0]"),
        ("[Edit /x/a.md\n- The port is 8080.]", "[Edit /x/a.md]"),
        ("[Edit /x/a.md]", "[Edit /x/a.md]"),
        ("[Bash: cat a\n- b]", "[Bash: cat a - b]"),
        ("Edit the list:\n- one\n+ two", "Edit the list: - one + two"),
    ],
)
def test_of_an_edit_what_it_put_in_is_left_at_its_place(note: str, left: str) -> None:
    found = without_removed_lines(note)
    assert " ".join(found.split()) == left
    assert len(found) == len(note)


def test_a_command_that_was_put_right_ends_an_error() -> None:
    turns = ["[Bash: gh pr diff 88 --stat]", "[Bash failed]\nunknown flag: --stat", "[Bash: gh pr diff 88 --name-only]"]
    acts = acts_in(enumerate([*turns, "[Bash result]\na.go"]))
    end = ending_of(acts, acts[0], "unknown flag: --stat")
    assert end is not None
    assert end.words == "gh pr diff 88 --name-only"


@pytest.mark.parametrize(
    ("command", "other", "alike"),
    [
        ("git show 8312232", "git show 8312232 --no-stat", True),
        ("cd /x && go test -v -run One ./a/...", "go test -v -run One", True),
        ("git add a.go b.go", "git diff --cached a.go b.go", False),
        ("git rebase --abort", "git fetch origin main && git rebase origin/main", False),
    ],
)
def test_commands_are_alike_in_their_program_and_most_words(command: str, other: str, alike: bool) -> None:
    assert is_like(command, other) is alike
