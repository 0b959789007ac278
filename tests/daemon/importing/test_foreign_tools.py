"""Calls that may bring a stranger's words: all but those that are known to stay with the project."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dreamd.daemon.importing.detect import read
from dreamd.daemon.importing.shell_commands import is_local
from dreamd.daemon.importing.tool_calls import brings_foreign_words
from hypothesis import given
from hypothesis import strategies as st

from tests.daemon.importing import test_contents
from tests.daemon.importing.conftest import sessions
from tests.daemon.importing.formats import test_codex, test_gemini, test_opencode
from tests.daemon.importing.formats.test_claude_code import call, line, result

LOCAL = [
    *("make test", "git status && git diff | head -50", "cd api && .venv/bin/python -m pytest -q 2>&1 | tail -20"),
    *(
        "npm run build",
        "cargo test --workspace",
        "go vet ./...",
        "uv run ruff check .",
        "rg -n 'x' src | sort | uniq -c",
    ),
    *("for f in *.py; do wc -l $f; done", "git -C api log --oneline -5", "cat > a.md <<'EOF'\ncurl it\nEOF\nls", ""),
    *(
        "bash -lc 'git status'",
        "find . -name '*.py' -exec grep -n x {} +",
        "source .venv/bin/activate\n# curl x\npytest",
    ),
    *("FOO=1 timeout 5 make -j4 > log.txt 2>&1 &", 'echo "$(git rev-parse HEAD)"', "git commit -m 'Mend it'"),
]
FOREIGN = [
    *("curl -s evil.example/x", "set -e\ncurl -s evil.example", "make test; wget x", "ls && npx x", "pip install x"),
    "python3 - <<'X'\nfrom urllib.request import urlopen as u; print(u('https://evil.example').read())\nX",
    "cd /a/long/path && " * 20 + "curl -s evil.example/x",
    *(
        "git clone git@github.com:evil/lib.git && cat lib/README.md",
        "git pull",
        "npm view x",
        "npm install",
        "http x.org",
    ),
    *("node fetch.js", "./get.sh", "bash get.sh", "sh -c 'curl x'", 'echo "$(curl x)"', "echo `curl x`", "ssh host ls"),
    *(
        "cat </dev/tcp/evil.example/80",
        "find . -exec curl x ;",
        "ls | xargs curl",
        "cat <<X\n$(curl x)\nX",
        "cat <<X\n$(curl x)\nX\nls /a/long/path",
        "ls" * 3000,
    ),
    *(
        "echo '<<X'\ncurl x",
        "sudo -n curl x",
        "time env A=1 curl x",
        "python -c 'x'",
        "gh issue view 3",
        "docker logs x",
    ),
    *(
        "echo ok # dreamctl\ncurl x",
        "dreamctl status; curl x",
        "if true; then curl x; fi",
        "(cd a; curl x)",
        "psql -c x",
    ),
]


@pytest.mark.parametrize("command", LOCAL)
def test_local_commands(command: str) -> None:
    assert is_local(command)


@pytest.mark.parametrize("command", FOREIGN)
def test_foreign_commands(command: str) -> None:
    assert not is_local(command)


@given(
    st.lists(st.sampled_from([one for one in LOCAL if "<<" not in one and "#" not in one]), max_size=4),
    st.sampled_from(["curl x", "xh y", "lftp z", "frobnicate"]),
    st.sampled_from(["\n", "; ", " && ", " || ", " | ", " & ", "\n\n  "]),
    st.integers(0, 4),
)
def test_one_program_that_is_not_known_is_enough(local: list[str], program: str, between: str, place: int) -> None:
    assert not is_local(between.join([*local[:place], program, *local[place:]]))


@pytest.mark.parametrize("tool", ["Read", "Edit", "Grep", "TodoWrite", "mcp__dreamd__recall"])
def test_local_tools(tool: str) -> None:
    assert not brings_foreign_words(tool, {"file_path": "/x"})


@pytest.mark.parametrize(
    "tool",
    [
        *("WebFetch", "WebSearch", "Task", "Agent", "Skill", "BashOutput", "TaskOutput", "ReadMcpResourceTool"),
        *("mcp__browser__open", "read_mcp_resource", "write_stdin", "a_tool_of_tomorrow", ""),
    ],
)
def test_foreign_tools(tool: str) -> None:
    assert brings_foreign_words(tool, {"command": "ls"})


EVIL = "curl -s evil.example/x"


def test_each_reader_says_so(jsonl: Callable[..., Path], tmp_path: Path) -> None:
    """Of the turn that calls, of that in which it is answered, and of none else."""
    ran = test_codex.item(
        {"type": "function_call", "name": "shell", "call_id": "1", "arguments": json.dumps({"cmd": EVIL})}
    )
    mcp = test_codex.item({"type": "function_call", "name": "read_mcp_resource", "call_id": "2", "arguments": "{}"})
    back = test_codex.item({"type": "function_call_output", "call_id": "1", "output": "It is blue."})
    paths = [
        jsonl(
            line("user", "hi"), call("Bash", command=f"set -e\n{EVIL}"), result("x"), call("Read", "t2", file_path="/x")
        ),
        jsonl(line("user", "hi"), call("BashOutput", bash_id="1"), result("x"), name="background.jsonl"),
        jsonl(test_codex.meta(), test_codex.message("user", "hi"), ran, back, name="rollout-1.jsonl"),
        jsonl(test_codex.meta(), test_codex.message("user", "hi"), mcp, name="rollout-2.jsonl"),
        jsonl(
            test_gemini.HEAD,
            test_gemini.said("1", "user", "hi"),
            test_gemini.said("2", "gemini", "", toolCalls=[test_gemini.call() | {"args": {"command": f"ls\n{EVIL}"}}]),
            name="session-1.jsonl",
        ),
    ]
    state: dict[str, Any] = {"input": {"command": EVIL}, "status": "completed", "output": "x"}
    calls: test_opencode.Parts = [{"type": "tool", "tool": "bash", "state": state}]
    user = ({"role": "user"}, [{"type": "text", "text": "hi"}])
    test_opencode.database(
        tmp_path / "opencode.db", [user, ({"role": "assistant", "time": {"completed": 1}}, calls)]
    ).close()
    for path in (*paths, tmp_path / "opencode.db"):
        turns = [turn for session in sessions(read(path)) for turn in session.turns]
        assert [turn.is_foreign for turn in turns] == [turn.role != "user" for turn in turns], path
        assert len(turns) > 1


@pytest.mark.parametrize("write", test_contents.PROGRAMS)
def test_of_every_program(write: test_contents.Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_contents, "COMMANDS", ["make", EVIL])
    turns = [turn for session in sessions(read(write(tmp_path, "/nowhere"))) for turn in session.turns]
    foreign = [turn.is_foreign for turn in turns]
    assert foreign in ([False, False, True, True], [False, True, True]), [turn.text for turn in turns]


def test_a_call_of_our_own_with_another_in_it_is_named_alone(jsonl: Callable[..., Path]) -> None:
    both = call("Bash", command=f"dreamctl remember 'The gate is blue.'; {EVIL}")
    own = call("Bash", "t2", command="dreamctl remember 'The gate is blue.'")
    path = jsonl(line("user", "hi"), both, result("It is blue."), own, result("Kept.", "t2"))
    turns = sessions(read(path))[0].turns
    assert [(turn.text, turn.is_foreign) for turn in turns] == [("hi", False), ("[Bash]", True)]


def test_a_call_that_has_not_returned_when_its_person_speaks(jsonl: Callable[..., Path]) -> None:
    path = jsonl(
        call("WebFetch", url="x"), line("user", "Quick!"), line("user", "Now."), result("x"), line("user", "Ok.")
    )
    turns = sessions(read(path))[0].turns
    assert [turn.is_foreign for turn in turns if turn.role == "user"] == [True, False, False]


def test_a_command_of_its_person_may_bring_them_too(jsonl: Callable[..., Path]) -> None:
    path = jsonl(
        line("user", f"<bash-input>{EVIL}</bash-input>"),
        line("user", "<bash-stdout>It is blue.</bash-stdout><bash-stderr></bash-stderr>"),
    )
    assert [turn.is_foreign for turn in sessions(read(path))[0].turns] == [True, True]
