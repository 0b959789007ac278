"""A walk through dreamd on temporary folders: import, ask, dream, ask again, undo. `make demo` runs it.

Every `$` line is a command as you would type it, followed by its own output. In between, the demo checks what is on the
disk: no secret was kept, every answer names its source, nothing comes in twice, undo restores every byte. A failure
ends it with a sentence and exit code 1; no process is left running and no folder left behind.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console

ROOT = Path(__file__).resolve().parent.parent
SAMPLE = Path("examples") / "fortnight"
DERIVED = {"index.md", "log.md", "digests"}  # in any folder; written again when they are needed, so undo leaves them
PAGE = "What holds now"
COMMAND_TIMEOUT_S = 100
WAIT_S = 60
POLL_S = 0.1

# Pasted by Ines in her third day's session. AWS's documentation uses these two, so they open nothing.
SECRETS = (b"AKIAIOSFODNN7" + b"EXAMPLE", b"wJalrXUtnFEMI/K7MDENG/" + b"bPxRfiCYEXAMPLEKEY")


@dataclass(frozen=True)
class Question:
    """A question: what it shows, its text, and words that a right answer has."""

    shows: str
    text: str
    answer: str


QUESTIONS = (
    Question("a preference", "Does Ines want an ORM or plain SQL?", "plain SQL"),
    Question("a decision and its reason", "Why are the reminders sent by SMS and not by e-mail?", "once a week"),
    Question("a fact that changed", "What database does Spokes run on now, SQLite or Postgres?", "Postgres 16"),
    Question("a procedure", "How do we deploy to production, and what comes first?", "just smoke staging"),
    Question("a correction", "Is cancelling free until 2 hours or until 24 hours before?", "24 hours"),
)


# What Ines changed in these two weeks: words of the old statement, and of the new one beside it.
CHANGES = (("2 hours", "24 hours"), ("SQLite it is", "Postgres"))


class DemoFailure(Exception):
    """Raised when a step did not do what it promises."""


class Demo:
    """The demo: a daemon on its own folders, and the commands that are typed."""

    def __init__(self, folder: Path, console: Console) -> None:
        self._console = console
        self._folder = folder
        self._data = folder / "data"
        self._log = folder / "dreamd.log"
        self._environment = _environment(folder)
        self._daemon: subprocess.Popen[bytes] | None = None
        self._channel = ""

    def run(self) -> None:
        """Walk through it, step by step. Raises DemoFailure."""
        self.start()
        self.import_sample()
        self.title("Five questions, answered from what was said")
        self.ask()
        before = self.vault()
        run_id = self.dream()
        self.title("The same questions, with what the dream made of it")
        self.ask()
        self.title("What changed, and what is in question: the report of the dream")
        self.type("digest")
        self.check_changes()
        self.read()
        self.undo(run_id, before)
        self.stop()

    def start(self) -> None:
        """Start the daemon in the background, and wait until it answers."""
        self.title("A daemon on temporary folders")
        self.echo("dreamd &")
        with self._log.open("wb") as log:
            self._daemon = subprocess.Popen(
                [sys.executable, "-m", "dreamd.daemon"],
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.wait_for("the daemon's first answer", lambda: self.call("status", quiet=True) is not None)
        self.type("status")

    def import_sample(self) -> None:
        """Import the sample twice; the second time adds nothing, and no secret may be in any file."""
        self.title("Two weeks of one developer's sessions")
        self.say("Ines builds a booking service for a bicycle repair shop; these are her sessions with her agent.")
        self.type("import", str(SAMPLE))
        again = self.call("import", str(SAMPLE))
        if again["turns_added"] or not again["turns_known"] or again["skipped_total"]:
            raise DemoFailure(f"importing again added {again['turns_added']} turns, skipped {again['skipped_total']}")
        self._channel = again["channels"][0]
        self.good(f"Imported once more: all {again['turns_known']} turns were known, nothing was added.")
        self.wait_for_embeddings()
        self.check_secrets()

    def check_secrets(self) -> None:
        """Look for what Ines pasted by mistake, in every byte that the daemon keeps."""
        files = [path for path in self._folder.rglob("*") if path.is_file()]
        leaks = [path for path in files if any(secret in path.read_bytes() for secret in SECRETS)]
        if leaks:
            raise DemoFailure(f"the pasted keys are in {', '.join(str(p.relative_to(self._folder)) for p in leaks)}")
        self.good(f"The AWS keys that Ines pasted by mistake are in none of the {len(files)} files.")

    def ask(self) -> None:
        """Ask every question; check that the answer is there and names turns of the sample."""
        for question in QUESTIONS:
            self.say(f"\n{question.shows}:")
            arguments = ("recall", question.text, "--limit", "3", "--channel", self._channel)
            self.type(*arguments)
            hits = self.call(*arguments)["hits"]
            if not any(question.answer in hit["text"] for hit in hits):
                raise DemoFailure(f"no answer to “{question.text}” says “{question.answer}”")
            if not all(hit["evidence"] and hit["evidence"][0]["external_id"] for hit in hits):
                raise DemoFailure(f"an answer to “{question.text}” names no turn that it comes from")

    def dream(self) -> str:
        """Have a daily dream; return the id of its run."""
        self.title("A dream")
        self.type("dream", "daily", "--wait")
        newest = self.call("runs", "--limit", "1")["runs"][0]
        if newest["state"] != "applied" or not newest["created"]:
            raise DemoFailure(f"the dream is {newest['state']} and made {newest['created']} memories")
        self.check_secrets()
        self.wait_for_embeddings()
        return str(newest["run_id"])

    def check_changes(self) -> None:
        """Look for Ines's two corrections in the digest, the old statement beside the new one."""
        rows = [line for line in self.call("digest")["text"].splitlines() if line.startswith("| ")]
        for old, new in CHANGES:
            if not any(old in row.split(" | ")[0] and new in row.split(" | ")[-1] for row in rows):
                raise DemoFailure(f"the digest does not show that “{new}” took the place of “{old}”")
        self.good("Both of Ines's corrections are there, the old statement beside the new one.")

    def read(self) -> None:
        """Show the page of what holds now; every line of it must be a quote of what was said."""
        self.title("A page worth reading")
        pages = self.call("list", "--level", "L3", "--channel", self._channel)["memories"]
        found = [page["node_id"] for page in pages if page["title"] == PAGE]
        if not found:
            raise DemoFailure(f"the dream made no page “{PAGE}”")
        self.type("show", found[0])
        text = self.call("show", found[0])["text"]
        unquoted = [line for line in text.splitlines() if line.lstrip().startswith("- ") and "“" not in line]
        if unquoted or not text.count("“"):
            raise DemoFailure(f"{len(unquoted)} lines of the page “{PAGE}” quote nobody")

    def undo(self, run_id: str, before: Mapping[str, str]) -> None:
        """Take the dream back and compare every byte."""
        self.title("Undone")
        self.type("runs")
        self.type("undo", run_id)
        after = self.vault()
        if after != before:
            changed = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
            raise DemoFailure(f"undo left {len(changed)} files otherwise than before, {changed[0]} among them")
        self.good(f"The vault's {len(after)} files are byte for byte what they were before the dream.")

    def stop(self) -> None:
        """End the daemon; nothing may outlive it."""
        self.title("The end")
        assert self._daemon is not None
        family = [psutil.Process(self._daemon.pid), *psutil.Process(self._daemon.pid).children(recursive=True)]
        self.type("stop")
        try:
            code = self._daemon.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            raise DemoFailure(f"the daemon still runs {WAIT_S} s after stop") from None
        if code != 0:
            raise DemoFailure(f"the daemon ended with exit code {code}")
        if left := psutil.wait_procs(family, timeout=5)[1]:
            raise DemoFailure(f"{len(left)} processes outlived the daemon")
        self.good("Nothing is running any more.")

    def end(self) -> None:
        """Kill what is left of the demo's processes, whatever happened."""
        if self._daemon is None or self._daemon.poll() is not None:
            return
        family = psutil.Process(self._daemon.pid).children(recursive=True)
        self._daemon.send_signal(signal.SIGTERM)
        try:
            self._daemon.wait(10)
        except subprocess.TimeoutExpired:
            self._daemon.kill()
            self._daemon.wait()
        for process in psutil.wait_procs(family, timeout=2)[1]:
            process.kill()

    def vault(self) -> dict[str, str]:
        """Return the hash of every file that is memory, by its path."""
        root = self._data / "vault"
        paths = (path for path in root.rglob("*") if path.is_file() and not path.name.startswith("."))
        kept = (path for path in paths if not DERIVED & {path.name, path.relative_to(root).parts[0]})
        return {str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in kept}

    # --- typing and saying

    def type(self, *words: str) -> None:
        """Run a command in sight: its output is the person's."""
        self.echo(shlex.join(("dreamctl", *words)))
        code = subprocess.run(
            self._command(words), cwd=ROOT, env=self._environment, timeout=COMMAND_TIMEOUT_S
        ).returncode
        if code:
            raise DemoFailure(f"`{shlex.join(('dreamctl', *words))}` ended with exit code {code}")

    def call(self, *words: str, quiet: bool = False) -> Any:
        """Run a command out of sight and read its JSON; `quiet` takes a failure for no answer."""
        command = self._command((*words, "--json"))
        done = subprocess.run(command, cwd=ROOT, env=self._environment, capture_output=True, timeout=COMMAND_TIMEOUT_S)
        if done.returncode == 0:
            return json.loads(done.stdout)
        if quiet:
            return None
        raise DemoFailure(
            f"`{shlex.join(('dreamctl', *words))}` failed: {done.stderr.decode(errors='replace').strip()}"
        )

    def wait_for(self, what: str, has_come: Callable[[], bool]) -> None:
        """Poll until the condition holds. Raises DemoFailure after a minute, or when the daemon has died."""
        deadline_s = time.monotonic() + WAIT_S
        while not has_come():
            if self._daemon is None or self._daemon.poll() is not None:
                raise DemoFailure("the daemon has ended by itself")
            if time.monotonic() > deadline_s:
                raise DemoFailure(f"{what} did not come within {WAIT_S} s")
            time.sleep(POLL_S)

    def wait_for_embeddings(self) -> None:
        """Wait until new memories can be found by their meaning too; by their words they are found at once."""
        self.wait_for("the end of the embedding queue", lambda: not self.call("status")["pending_embeddings"])

    def log_tail(self) -> str:
        """Return the last lines of the daemon's log, for the report of a failure."""
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines() if self._log.exists() else []
        return "\n".join(lines[-15:])

    def title(self, text: str) -> None:
        """Print a heading."""
        if self._console.is_terminal:
            self._console.print()
            self._console.rule(f"[bold]{text}", align="left")
        else:
            print(f"\n== {text}", flush=True)

    def echo(self, command: str) -> None:
        """Print a line as a person types it."""
        self._console.print(f"\n$ {command}", style="bold cyan", markup=False, highlight=False, soft_wrap=True)
        sys.stdout.flush()

    def say(self, text: str) -> None:
        """Print a remark."""
        self._console.print(text, style="dim", markup=False, highlight=False)

    def good(self, text: str) -> None:
        """Print a check that held."""
        self._console.print(f"✓ {text}", style="green", markup=False, highlight=False)

    def _command(self, words: tuple[str, ...]) -> list[str]:
        return [sys.executable, "-m", "dreamd.daemon.cli.main", *words]


def main() -> int:
    """Run the demo; return 0 if every step held, else 1."""
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.default_int_handler)
    console = Console(highlight=False)
    began_s = time.monotonic()
    problem = ""
    with tempfile.TemporaryDirectory(prefix="dreamd-demo-") as folder:
        demo = Demo(Path(folder), console)
        try:
            demo.run()
        except (DemoFailure, subprocess.TimeoutExpired) as error:
            problem = str(error)
        except KeyboardInterrupt:
            problem = "interrupted"
        finally:
            demo.end()
        log = demo.log_tail() if problem else ""
    if not problem and Path(folder).exists():
        problem = f"the folder {folder} could not be removed"
    if problem:
        sys.stdout.flush()
        print(f"\ndemo: {problem}.\n\nThe daemon's log ends:\n{log}", file=sys.stderr)
        return 1
    demo.good(f"The temporary folders are gone. That took {time.monotonic() - began_s:.0f} s.")
    return 0


def _environment(folder: Path) -> dict[str, str]:
    """Return the caller's environment, with every folder of dreamd inside the demo's own."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("DREAMD_", "XDG_"))}
    config = folder / "dreamd.toml"
    config.write_text("# the defaults\n", encoding="utf-8")
    places = {"XDG_RUNTIME_DIR": "run", "XDG_CONFIG_HOME": "config", "XDG_DATA_HOME": "share"}
    places |= {"XDG_STATE_HOME": "state", "XDG_CACHE_HOME": "cache"}
    for place in places.values():
        (folder / place).mkdir(mode=0o700)
    return (
        inherited
        | {name: str(folder / place) for name, place in places.items()}
        | {
            "DREAMD_CONFIG": str(config),
            "DREAMD_DATA_DIR": str(folder / "data"),
            "DREAMD_SOCKET": str(folder / "run" / "dreamd.sock"),
            "DREAMD_PIPELINES__SCHEDULE__ENABLED": "false",  # the demo dreams when its reader looks on
        }
    )


if __name__ == "__main__":
    sys.exit(main())
