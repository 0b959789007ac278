"""Real agent programs against a scripted model: what one session is told, the next one knows.

`make test-agents` installs them and runs this; each is skipped where it is not there.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from tests.agents.programs import AGENTS, QUIET, TIMEOUT_S, Agent
from tests.agents.scripted_model import RESULT, ScriptedModel
from tests.bench.daemon_under_test import DaemonUnderTest

RULE = "Never push on Fridays."
COMPRESSED_AT = 1e-5
"""The share of its model's context at which Gemini CLI compresses a chat: some ten tokens, so at the second prompt."""
FACT = "Please note: our staging database is called heron, and it listens on port 6543."
ASKED = "On which port does our staging database heron listen?"
TRIES = 6
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

    def say(self, prompt: str, *, resume: bool = False) -> str:
        """Have the agent answer in a new session, or in its last; it must end well."""
        runtime = self.daemon.environ["XDG_RUNTIME_DIR"]
        done = self.agent.say(prompt, self.home, self.project, self.model.url, runtime, resume=resume)
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

    def hold(self, rule: str) -> None:
        """Have the daemon remember a rule, which every session is then told at its start."""
        self.daemon.call("remember", text=rule, kind="preference", cwd=str(self.project))
        self.daemon.wait_until_embedded()

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


class OpencodeServer:
    """`opencode serve`, in which one session stays open for several prompts, as in its own terminal."""

    def __init__(self, person: Person) -> None:
        self._person = person
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            self._port = one.getsockname()[1]
        self._session = ""

    def __enter__(self) -> Self:
        agent, person = self._person.agent, self._person
        environ = agent.environ(person.home, person.model.url, person.daemon.environ["XDG_RUNTIME_DIR"])
        command = [str(agent.executable), "serve", "--port", str(self._port)]
        self._process = subprocess.Popen(
            command,
            env=environ,
            cwd=person.project,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        try:
            assert self._process.stdout is not None
            # An earlier request, also one that is refused, is never answered.
            assert any(b"listening" in line for line in self._process.stdout)
            self._session = self._post("", {})["id"]
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def say(self, prompt: str) -> None:
        """Have it answer one prompt."""
        model = {"providerID": "scripted", "modelID": "scripted"}
        self._post(f"/{self._session}/message", {"model": model, "parts": [{"type": "text", "text": prompt}]})

    def compact(self) -> None:
        """Have it put a summary in the place of the conversation."""
        self._post(f"/{self._session}/summarize", {"providerID": "scripted", "modelID": "scripted"})

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        wire = http.client.HTTPConnection("127.0.0.1", self._port, timeout=TIMEOUT_S)
        try:
            wire.request("POST", f"/session{path}", json.dumps(body), {"content-type": "application/json"})
            answer = wire.getresponse()
            text = answer.read()
            assert answer.status == 200, text
            return json.loads(text)
        finally:
            wire.close()


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


def only(*folders: str) -> pytest.MarkDecorator:
    """Run a test for these programs alone."""
    agents = [agent for agent in AGENTS if agent.folder in folders]
    return pytest.mark.parametrize("person", agents, indirect=True, ids=folders)


def test_what_one_session_says_the_next_one_knows(person: Person) -> None:
    before = person.settings()
    said = person.connect()
    if person.agent.name == "codex":
        assert "7 of 7 hooks are trusted" in said
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


def test_a_session_that_is_taken_up_again_has_every_prompt(person: Person) -> None:
    person.connect()
    person.hold(RULE)
    prompts = ["First, name a bird.", "Second, name a river.", "Third, name a tree."]
    for number, prompt in enumerate(prompts):
        person.model.requests.clear()
        person.say(prompt, resume=number > 0)
    *_, told = (text for text in person.model.texts() if prompts[-1] in text)
    assert [prompt for prompt in prompts if prompt not in told] == []
    assert told.count(RULE) == 1


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


FAILING = "echo error: prepared statement sqlx_s_4 already exists; exit 1"
CAUSE = "That is pgbouncer in transaction mode: it swaps the connections whose prepared statements sqlx keeps."
EARLIER = (
    ("assistant", "[Bash: sh migrate.sh]"),
    ("tool", "[Bash failed]\nExit code 1\nerror: prepared statement sqlx_s_9 already exists"),
    ("assistant", CAUSE),
    ("assistant", "[Edit /x/src/db.rs]"),
)
COMMANDS = {
    "claude-code": ("Bash", "command"),
    "codex": ("exec_command", "cmd"),  # of which its hook is told no exit code
    "gemini": ("run_shell_command", "command"),
    "opencode": ("bash", "command"),
}
OPENED = {
    "claude-code": ("Write", "file_path", {"content": "x"}),
    "gemini": ("read_file", "file_path", {}),
    "opencode": ("read", "filePath", {}),
}
"""How a file is written, or where no text is taken then, read before it is. Codex offers a scripted model no edits."""


def _asked(person: Person, prompt: str, sign: str) -> list[str]:
    """Return the requests with a sign that followed a prompt: a hook on a busy machine may give up, so it is tried."""
    told: list[str] = []
    for _ in range(TRIES):
        person.model.requests.clear()
        person.say(prompt)
        if told := [text for text in person.model.texts() if sign in text]:
            break
    return told


def test_a_failed_command_tells_the_model_its_known_cause(person: Person) -> None:
    person.connect()
    turns = [{"role": role, "text": text} for role, text in EARLIER]
    person.daemon.call("observe", session={"session_id": "earlier", "cwd": str(person.project)}, turns=turns)
    person.wait_until_learned("pgbouncer in transaction mode")
    (person.project / "migrate.sh").write_text(f"{FAILING}\n")
    tool, key = COMMANDS[person.agent.name]
    told = _asked(person, f'CALL {tool} {{"{key}": "sh migrate.sh", "description": "Migrate"}}', "This error came up")
    assert told
    assert CAUSE in told[-1]


@only("claude-code", "claude-code-2.1.197", "gemini", "opencode")
def test_an_edit_tells_the_model_the_rule_of_its_file(person: Person) -> None:
    """The rule is remembered once the model has the prompt: a start would tell it before the edit."""
    person.connect()
    rule = "Never edit queries.lock by hand: it is generated."
    file = person.project / "queries.lock"
    file.write_text("1\n")
    tool, key, more = OPENED[person.agent.name]
    patch = f"apply_patch '*** Begin Patch\n*** Update File: {file}\n@@\n-1\n+2\n*** End Patch'"
    given = {key: patch if tool == "exec_command" else str(file.with_name("new.lock") if more else file), **more}
    if more:
        rule = rule.replace("queries", "new")
    person.model.on_prompt = {"CALL": lambda: person.hold(rule)}
    told = _asked(person, f"CALL {tool} {json.dumps(given)}", "about this file:")
    assert told
    assert rule in told[-1]


@only("gemini")
def test_gemini_is_told_again_after_a_compression_alone(person: Person) -> None:
    file = person.home / ".gemini" / "settings.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"model": {"compressionThreshold": COMPRESSED_AT}}))
    person.connect()
    person.hold(RULE)
    told = []
    for number, prompt in enumerate(
        ["A bird? " + "Long-winded words about birds. " * 50, "A river?", "A tree?", "A hill?"]
    ):
        person.model.requests.clear()
        person.say(prompt, resume=number > 0)
        told.append([text for text in person.model.texts() if prompt in text][-1].rpartition(prompt)[2].count(RULE))
    assert any("<state_snapshot>" in text for text in person.model.texts())
    # It compresses at each prompt but the first. On a busy machine a hook may give up: the next prompt has the text.
    assert told[:2] == [1, 0]
    assert 1 in told[2:]


@only("opencode")
def test_opencode_s_conversation_keeps_its_beginning(person: Person) -> None:
    person.connect()
    person.hold(RULE)
    person.model.requests.clear()
    with OpencodeServer(person) as server:
        for prompt in ("Name a bird.", "Name a river."):
            server.say(prompt)
        first, second = (request["messages"] for request in person.model.requests if "tools" in request)
        titles = [request for request in person.model.requests if "tools" not in request]
        person.model.requests.clear()
        server.compact()
        (summary,) = person.model.texts()
        server.say("Name a tree.")
    assert second[: len(first)] == first
    assert RULE not in json.dumps([message for message in second if message["role"] == "system"])
    assert json.dumps(second).count(RULE) == 1
    assert titles
    assert RULE not in json.dumps(titles)
    assert "Name a bird." in summary
    assert RULE not in summary
    assert person.model.texts()[-1].count(RULE) == 1


@only("opencode")
def test_what_opencode_did_is_kept_without_following_it(person: Person) -> None:
    person.connect()
    person.say('Add them up. CALL bash {"command": "echo wombats-$((40 + 2))", "description": "Add"}')
    person.wait_until_learned("[Bash result]\nwombats-42")
    person.wait_until_learned("RESULT WAS: wombats-42")
    found = person.daemon.call("recall", query="add them up", cwd=str(person.project))
    assert any(hit["text"].startswith("Add them up. CALL bash") for hit in found["hits"]), found


@only("claude-code", "claude-code-2.1.197")
def test_the_plugin_is_one(person: Person, tmp_path: Path) -> None:
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
