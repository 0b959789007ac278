"""Programs that nobody connects, run against a scripted model: their sessions, as they write them, are read.

`make test-agents` installs them and runs this; each is skipped where it is not there.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from dreamd.daemon.importing.detect import read
from dreamd.daemon.importing.following.followed_places import folder_of
from dreamd.daemon.importing.items import SessionRead

from tests.agents.programs import INSTALLED, TIMEOUT_S
from tests.agents.scripted_model import ScriptedModel

pytestmark = [pytest.mark.agents, pytest.mark.timeout(600)]

SAID = "Add them up, please."
KEY = "sk-fake-local"
# Qwen Code misses the output of a command that ends at once.
SHELL = {"command": "echo wombats-$((40 + 2)) && sleep 1"}


@dataclass(frozen=True, slots=True)
class Writer:
    """A program: where npm has put its command, how it is asked, and the call by which its model runs a command.

    `stopped` ends a process that it leaves behind.
    """

    name: str
    command: str
    asked: Callable[[str], tuple[str, ...]]
    tool: str = "bash"
    arguments: Mapping[str, object] | None = None
    stopped: tuple[str, ...] = ()
    environment: Callable[[str], Mapping[str, str]] = lambda url: {}
    settings: Callable[[str], Mapping[str, str]] = lambda url: {}


def _openai(url: str) -> dict[str, str]:
    return {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_MODEL": "scripted"}


def _claw(url: str) -> dict[str, str]:
    model = {"id": "scripted", "name": "scripted", "contextWindow": 128_000, "maxTokens": 4000}
    provider = {"baseUrl": f"{url}/v1", "apiKey": KEY, "api": "openai-completions", "models": [model]}
    agents = {"defaults": {"model": {"primary": "scripted/scripted"}}}
    return {".openclaw/openclaw.json": json.dumps({"models": {"providers": {"scripted": provider}}, "agents": agents})}


WRITERS = (
    Writer(
        "copilot",
        "copilot/node_modules/.bin/copilot",
        lambda prompt: ("-p", prompt, "--allow-all-tools"),
        arguments=SHELL | {"description": "Add"},
        environment=lambda url: {
            "COPILOT_OFFLINE": "true",
            "COPILOT_PROVIDER_BASE_URL": f"{url}/v1",
            "COPILOT_PROVIDER_API_KEY": KEY,
            "COPILOT_PROVIDER_TYPE": "openai",
            "COPILOT_MODEL": "scripted",
        },
    ),
    Writer(
        "qwen",
        "qwen/node_modules/.bin/qwen",
        lambda prompt: ("--auth-type", "openai", "-y", "-p", prompt),
        "run_shell_command",
        SHELL | {"is_background": False},
        environment=_openai,
    ),
    Writer(
        "cline",
        "cline/node_modules/.bin/cline",
        lambda prompt: ("-P", "openai-compatible", "-m", "scripted", "-k", KEY, prompt),
        "run_commands",
        {"commands": [SHELL["command"]]},
        ("hub", "stop"),
        lambda url: {"CLINE_TELEMETRY_DISABLED": "1"},
        lambda url: {
            ".cline/data/settings/providers.json": json.dumps(
                {
                    "version": 1,
                    "lastUsedProvider": "openai-compatible",
                    "providers": {
                        "openai-compatible": {
                            "settings": {
                                "provider": "openai-compatible",
                                "apiKey": KEY,
                                "model": "scripted",
                                "baseUrl": f"{url}/v1",
                            },
                            "updatedAt": "2026-11-22T00:00:00.000Z",
                            "tokenSource": "manual",
                        }
                    },
                }
            )
        },
    ),
    Writer(
        "goose",
        "goose/node_modules/.bin/goose",
        lambda prompt: ("run", "-t", prompt),
        "shell",
        SHELL,
        environment=lambda url: {
            "OPENAI_API_KEY": KEY,
            "OPENAI_HOST": url,
            "GOOSE_PROVIDER": "openai",
            "GOOSE_MODEL": "scripted",
            "GOOSE_MODE": "auto",
            "GOOSE_DISABLE_KEYRING": "1",
        },
    ),
    Writer(
        "openclaw",
        "openclaw/node_modules/.bin/openclaw",
        lambda prompt: ("agent", "--local", "--agent", "main", "--message", prompt),
        "exec",
        SHELL,
        settings=_claw,
    ),
)


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as one:
        yield one


@pytest.mark.parametrize("writer", WRITERS, ids=lambda writer: writer.name)
def test_what_a_program_wrote_is_read(writer: Writer, model: ScriptedModel, tmp_path: Path) -> None:
    executable = INSTALLED / writer.command
    if not executable.exists():
        pytest.skip(f"{executable} is not there; `make test-agents` installs it where npm is")
    home, project = tmp_path / "home", tmp_path / "sums"
    project.mkdir()
    for name, text in writer.settings(model.url).items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    home.mkdir(exist_ok=True)
    node = INSTALLED / "node" / "node_modules" / ".bin"
    environ = {"PATH": f"{node}:{os.environ['PATH']}", "HOME": str(home), "LANG": "C.UTF-8"}
    prompt = f"{SAID} CALL {writer.tool} {json.dumps(writer.arguments)}"
    environ |= writer.environment(model.url)

    def run(*words: str) -> str:
        done = subprocess.run(
            [str(executable), *words],
            env=environ,
            cwd=project,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        return done.stdout + done.stderr

    shown = run(*writer.asked(prompt))
    if writer.stopped:  # it leaves a process behind
        run(*writer.stopped)
    items = [one for one in read(folder_of(writer.name, {"HOME": str(home)})) if isinstance(one, SessionRead)]
    turns = [turn for one in items for turn in one.turns]
    said = [(turn.role, turn.text) for turn in turns]
    assert len({one.head.session_id for one in items}) == 1, shown
    assert items[0].head.agent_id == writer.name
    assert items[0].head.cwd is not None
    if writer.name != "openclaw":  # which works in a folder of its own
        assert items[0].head.cwd == str(project)
    assert said[0][0] == "user"
    assert said[0][1].startswith(SAID)
    assert ("assistant", f"[Bash: {SHELL['command']}]") in said
    assert any(role == "tool" and text.startswith("[Bash result]\n") and "wombats-42" in text for role, text in said)
    assert all(turn.at is not None and turn.external_id for turn in turns)
