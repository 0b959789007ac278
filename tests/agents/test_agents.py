"""Real agent programs against a scripted model: what one session is told, the next one knows.

`make test-agents` installs them and runs this; each is skipped where it is not there.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.agents.programs import AGENTS, QUIET, Agent
from tests.agents.scripted_model import RESULT, ScriptedModel
from tests.bench.daemon_under_test import DaemonUnderTest

FACT = "Please note: our staging database is called heron, and it listens on port 6543."
ASKED = "On which port does our staging database heron listen?"
TRIES = 3
"""Sessions that are asked: on a machine that starts these programs beside others a hook may give up in time."""
OWN_STATE = {".claude.json"}
"""Files that a program rewrites while it runs: there our entry is gone, and what it wrote itself stays."""

pytestmark = [pytest.mark.agents, pytest.mark.timeout(900)]


class Person:
    """Somebody with one agent, a project, and a daemon."""

    def __init__(self, agent: Agent, folder: Path, daemon: DaemonUnderTest, model: ScriptedModel) -> None:
        self.agent = agent
        self.home = folder / "home"
        self.project = folder / "orders"
        self.project.mkdir()
        self.daemon = daemon
        self.model = model
        agent.prepare(self.home, model.url)

    def say(self, prompt: str) -> str:
        """Have the agent answer in a new session; it must end well."""
        done = self.agent.say(prompt, self.home, self.project, self.model.url)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def dreamctl(self, *words: str) -> str:
        """Type a command; it must end well."""
        command = [str(Path(sys.executable).with_name("dreamctl")), *words]
        path = f"{self.agent.executable.parent}:{os.environ['PATH']}"
        environ = self.daemon.environ | {"HOME": str(self.home), "PATH": path}
        environ.pop("XDG_CONFIG_HOME", None)
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    @property
    def call_of_recall(self) -> str:
        """A prompt at which the model calls our tool."""
        return f'CALL {self.agent.tool} {{"query": "staging database heron port"}}'

    def connect(self) -> str:
        trust = ["--trust"] if self.agent.name == "codex" else []
        return self.dreamctl("connect", self.agent.name, "--yes", *trust)

    def settings(self) -> dict[str, bytes]:
        """Return every file of the agent's settings that is there before it ran."""
        return {str(file.relative_to(self.home)): file.read_bytes() for file in self.home.rglob("*") if file.is_file()}

    def wait_until_learned(self, text: str, timeout_s: float = 60) -> None:
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            found = self.daemon.call("recall", query=text, cwd=str(self.project))
            if any(text in hit["text"] for hit in found["hits"]):
                return
            time.sleep(0.2)
        raise AssertionError(f"{text!r} was not learned: {found}\n{self.daemon.log.read_text()[-3000:]}")


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as one:
        yield one


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonUnderTest]:
    with DaemonUnderTest(tmp_path / "daemon") as one:
        one.wait_until_embedded()
        yield one


@pytest.fixture(params=AGENTS, ids=lambda agent: agent.folder)
def person(request: pytest.FixtureRequest, tmp_path: Path, daemon: DaemonUnderTest, model: ScriptedModel) -> Person:
    agent: Agent = request.param
    if not agent.executable.exists():
        pytest.skip(f"{agent.folder} is not installed: `make test-agents` does that, where npm is")
    return Person(agent, tmp_path, daemon, model)


def test_what_one_session_says_the_next_one_knows(person: Person) -> None:
    before = person.settings()
    said = person.connect()
    if person.agent.name == "codex":
        assert "4 of 4 hooks are trusted" in said
    person.say(FACT)
    person.wait_until_learned("port 6543")
    person.daemon.wait_until_embedded()
    for _ in range(TRIES):
        person.model.requests.clear()
        person.say(ASKED)
        told = [text for text in person.model.texts() if ASKED in text]
        if any("6543" in text for text in told):
            break
    assert {text.count("6543") for text in told} in ({1}, {0, 1})  # a title, which some ask for first, needs no memory
    assert all(text.count("/dreamd-memory") <= 1 for text in told)  # of which Gemini CLI escapes the brackets
    person.model.requests.clear()
    answer = person.say(person.call_of_recall)
    assert RESULT in answer
    assert "6543" in answer
    assert "BAD" not in person.dreamctl("connect", person.agent.name, "--check")
    person.dreamctl("disconnect", person.agent.name, "--yes")
    after = person.settings()
    for name, content in before.items():
        if name not in OWN_STATE:
            assert after[name] == content, name
    for name in OWN_STATE & after.keys():
        assert "dreamd" not in json.loads(after[name]).get("mcpServers", {})
    configured = [name for name, content in after.items() if b"dreamctl" in content and _is_setting(name)]
    assert configured == []


def _is_setting(name: str) -> bool:
    """Say whether a file is one of a program's settings, and not a record of what it did."""
    return name.endswith(("settings.json", "config.toml", "hooks.json", "opencode.json", "plugin/dreamd.js"))


def _stop(daemon: DaemonUnderTest) -> None:
    assert daemon.process is not None
    daemon.process.send_signal(signal.SIGSTOP)


TROUBLES: dict[str, Callable[[DaemonUnderTest], None]] = {
    "killed": lambda daemon: daemon.kill(),
    "stopped": _stop,
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_an_agent_goes_on_without_the_daemon(person: Person, trouble: str) -> None:
    person.connect()
    TROUBLES[trouble](person.daemon)
    said = person.say(FACT)
    for sign in ("hook error", "hook failed", "Hook execution failed", "non-zero", "Traceback"):
        assert sign not in said, said
    person.daemon.kill()
    person.daemon.start()
    person.daemon.wait_until_it_answers()
    person.say("The office is in Linz.")
    person.wait_until_learned("The office is in Linz.")


def _restart(daemon: DaemonUnderTest) -> None:
    daemon.kill()
    daemon.start()
    daemon.wait_until_it_answers()


@pytest.mark.parametrize("trouble", [*TROUBLES, "restarted"])
def test_a_session_outlives_the_daemon(person: Person, trouble: str) -> None:
    """The daemon goes while the model thinks; the tool that it calls then, and the hooks after it, do no harm."""
    person.connect()
    person.say(FACT)
    person.wait_until_learned("port 6543")
    person.daemon.wait_until_embedded()
    act = TROUBLES.get(trouble, _restart)
    person.model.on_prompt = {person.agent.tool: lambda: act(person.daemon)}
    said = person.say(person.call_of_recall)
    assert not person.model.on_prompt
    assert RESULT in said
    assert ("6543" in said.partition(RESULT)[2]) == (trouble == "restarted")
    for sign in ("hook error", "hook failed", "Hook execution failed", "non-zero", "Traceback"):
        assert sign not in said, said


def test_the_plugin_is_one(person: Person, tmp_path: Path) -> None:
    if person.agent.name != "claude-code":
        pytest.skip("only Claude Code has plugins")
    folder = tmp_path / "plugin"
    person.dreamctl("connect", "claude-code", "--plugin", str(folder))
    done = subprocess.run(
        [str(person.agent.executable), "plugin", "validate", str(folder)],
        env={"PATH": os.environ["PATH"], "HOME": str(person.home), **QUIET},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Validation passed" in done.stdout
    assert "✘" not in done.stdout, done.stdout  # what the plugin directory would refuse
