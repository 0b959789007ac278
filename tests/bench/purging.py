"""Erase at random, and kill half of the purges: `python tests/bench/purging.py --purges 200`.

A child opens a store, talks, dreams, undoes, forgets, edits by hand and asks for a while, and then purges a turn, a
fact, a session or a text, while another of its threads goes on talking. In half of the rounds it is killed at a random
instant of that, and a second child finishes what it left. Then the parent looks for the purged words in every byte, as
it stands and unpacked, and compares everything else with what was there before: files, images, acknowledged turns.
Each word of a text that is told apart is nobody else's, so that what is left of it cannot be anything else.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import random
import re
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any, NoReturn

if __name__ == "__main__":  # run as a script: the folder that holds `tests`
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # no threads in the parent: it forks

import apsw
from dreamd.store import okf
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.embedding.vector_cache import EmbeddingCache
from dreamd.store.index.index import Index
from dreamd.store.ledger.ledger import Ledger
from dreamd.store.ledger.records import unpacked
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.model import Kind, Level, Memory, NewTurn, SessionHead, StoreError
from dreamd.store.okf import session
from dreamd.store.okf.memory_file import BY_HAND, body_hash
from dreamd.store.purge import prove
from dreamd.store.purge.erase import Intent
from dreamd.store.purge.plan import Selection
from dreamd.store.settings import StoreSettings
from dreamd.store.writer.writer import Writer

from tests.store.purge.purging import changeset_of

NOW = datetime(2026, 11, 21, 9, tzinfo=UTC)
CHANNEL = "shop"
PURGES_PER_FOLDER = 10
POINTS = (
    "after:intent:1", "after:scrub:1", "before:erase:1", "after:erase:1", "after:erase:2", "before:index:1",
    "after:index:1", "after:cache:1", "before:ledger:1", "after:ledger:1", "before:remove:1", "after:remove:1",
)  # fmt: skip
"""The instants of a purge at which it is killed with `--steps`."""

TOKEN = re.compile(r"tok[a-z]{9}")
WORDS = "river lantern copper meadow violin harbor pepper glacier saddle orchard ribbon walnut tunnel feather".split()
LONGEST_PURGE_S = 5.5
"""About as long as a purge takes beside the other thread: a kill comes at a random instant before."""


def token(rng: random.Random) -> str:
    """Return a word that nobody else says."""
    return "tok" + "".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(9))


def sentence(rng: random.Random, *tokens: str) -> str:
    """Return a sentence with these words among common ones."""
    words = [*tokens, *(rng.choice(WORDS) for _ in range(rng.choice((5, 9, 60))))]
    rng.shuffle(words)
    return f"We said {' '.join(words)}"


def store_in(folder: Path) -> MemoryStore:
    """Open the store of a folder."""
    paths = StorePaths(
        vault=folder / "vault",
        ledger=folder / "ledger.db",
        index=folder / "index" / "index.db",
        embeddings=folder / "index" / "embeddings.db",
        runs=folder / "runs",
    )
    return MemoryStore.open(paths, StoreSettings(), StubEmbedder(), lambda: datetime.now(UTC))


@dataclass
class Before:
    """What was there before a purge, and what it shall remove."""

    kind: str
    tokens: set[str]
    ids: set[str]
    files: dict[str, bytes]
    actions: dict[int, tuple[Any, ...]]
    purges: set[str]


# ---- the child


class Life:
    """A store that is lived in for a while."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        self.store = store_in(folder)
        self.seed = seed

    def work(self) -> None:
        """Do a few things of those that happen to a memory."""
        deeds = [self.talk, self.talk, self.dream, self.dream, self.undo, self.forget, self.edit, self.delete]
        self.talk()
        self.dream()
        for deed in self.rng.choices([*deeds, self.ask, self.note], k=self.rng.randint(2, 6)):
            with suppress(StoreError):
                deed()
        self.store.settle_links(30)
        self.store.reconcile()
        self.store.settle_deletions()

    def talk(self) -> None:
        name = f"s{self.rng.randrange(4)}-{self.seed // PURGES_PER_FOLDER}"
        texts = [sentence(self.rng, token(self.rng)) for _ in range(self.rng.randint(1, 4))]
        turns = [NewTurn("user", text, NOW - timedelta(days=1), token(self.rng)[3:]) for text in texts]
        self.store.observe(SessionHead(name, CHANNEL, texts[0][:60], NOW), turns).result()

    def note(self) -> None:
        self.store.remember(sentence(self.rng, token(self.rng)), channel=CHANNEL).result()

    def turns(self) -> list[Any]:
        return [node for node in self.store.catalog.said() if node.kind is Kind.TURN and node.live]

    def facts(self) -> list[Any]:
        return self.store.catalog.listing(level=Level.FACT)

    def dream(self) -> None:
        self.store.settle(30)
        known = {source for node in self.facts() for source in self.store.catalog.links(node.node_id, "cites")}
        fresh = [turn for turn in self.turns() if turn.node_id not in known][:5]
        made = [self.fact(turn) for turn in fresh]
        if made:
            made.append(self.page(made + [self.read(node) for node in self.facts()[:3]]))
        run_id = f"{NOW:%Y%m%d-%H%M%S}-{self.rng.randrange(10**9):09}-daily-0001"
        self.store.apply(changeset_of(run_id, made), summary={"note": "a dream"})

    def read(self, node: Any) -> Memory:
        return okf.to_memory(node.path, okf.parse(self.store.vault.read(node.path)))

    def fact(self, turn: Any) -> Memory:
        node_id = okf.fact_id(CHANNEL, turn.text)
        path = okf.path_for(Level.FACT, turn.text[:60], node_id)
        return Memory(
            node_id=node_id,
            level=Level.FACT,
            kind=Kind.FACT,
            title=turn.text[:60],
            text=turn.text,
            channel=CHANNEL,
            created_at=NOW,
            session_id=turn.session_id,
            sources=(turn.node_id,),
            path=path,
        )

    def page(self, facts: list[Memory]) -> Memory:
        title = f"Page {self.rng.randrange(10**9)}"
        labels = okf.source_ids(each.node_id for each in facts)
        text = "## Now\n\n" + "\n".join(f"- “{each.text}” [^{labels[each.node_id]}]" for each in facts)
        return Memory(
            node_id=okf.fact_id(CHANNEL, title),
            level=Level.PROFILE,
            kind=Kind.PROFILE,
            title=title,
            text=text,
            channel=CHANNEL,
            created_at=NOW,
            sources=tuple(labels),
            path=okf.path_for(Level.PROFILE, title, "", CHANNEL),
            extra={BY_HAND: body_hash(text)},
        )

    def undo(self) -> None:
        if runs := [run for run in self.store.runs(30) if run.state == "applied" and run.kind != "purge"]:
            self.store.undo(self.rng.choice(runs).run_id)

    def forget(self) -> None:
        if nodes := [*self.facts(), *self.turns()]:
            self.store.forget(self.rng.choice(nodes).node_id)

    def edit(self) -> None:
        if nodes := [node for node in self.store.catalog.listing() if node.level in {Level.PROFILE, Level.FACT}]:
            path = self.store.vault.root / self.rng.choice(nodes).path
            path.write_text(path.read_text() + f"\n- and by hand {sentence(self.rng, token(self.rng))}\n")
            self.store.reconcile()

    def delete(self) -> None:
        if facts := self.facts():
            (self.store.vault.root / self.rng.choice(facts).path).unlink()
            self.store.reconcile()
            self.store.settle_deletions()

    def ask(self) -> None:
        if turns := self.turns():
            self.store.recall(self.rng.choice(turns).text[:200], channel=CHANNEL)
            self.store.operations.feedback.settle(5)

    # ---- and then erased

    def choose(self) -> tuple[str, Selection, set[str]]:
        """Choose what is purged; return the words that must be gone then."""
        if not self.turns():
            self.talk()
            self.store.settle(30)
        turn = self.rng.choice(self.turns())
        kind = self.rng.choice(["turn", "fact", "session", "matching"])
        facts = self.facts()
        if kind == "fact" and facts:
            fact = self.rng.choice(facts)
            cited = self.store.catalog.links(fact.node_id, "cites")
            said = [node.text for node in self.store.catalog.nodes(cited).values()]
            return kind, Selection(nodes=(fact.node_id,)), set(TOKEN.findall("\n".join([fact.text, *said])))
        if kind == "session":
            said = [node.text for node in self.store.catalog.turns(turn.session_id)]
            return kind, Selection(nodes=(turn.session_id,)), set(TOKEN.findall("\n".join(said)))
        tokens = set(TOKEN.findall(turn.text))
        if kind == "matching":
            return kind, Selection(matching=min(tokens)), tokens
        return "turn", Selection(nodes=(turn.node_id,)), tokens

    def before(self, kind: str, tokens: set[str]) -> Before:
        said = [*self.store.catalog.said(), *self.store.catalog.listing()]
        ids = {
            node.node_id
            for node in said
            if node.kind is Kind.TURN or node.level is Level.FACT
            if tokens & set(TOKEN.findall(node.text))
        }
        for path, data in self.store.ledger.images():
            memory = okf.to_memory(path, okf.parse(data))
            if memory.level is Level.FACT and tokens & set(TOKEN.findall(memory.text)):
                ids.add(memory.node_id)
        ledger = self.store.paths.ledger
        return Before(kind, tokens, ids, files_of(self.store.vault.root), actions_of(ledger), purges_of(ledger))

    def chatter(self, stop: threading.Event, file: Path) -> None:
        """Talk on, and write down what was acknowledged, with what each recall took."""
        rng = random.Random(f"chatter {self.seed}")
        with file.open("a") as out:
            while not stop.is_set():
                text, name = sentence(rng, token(rng)), token(rng)[3:]
                began = time.monotonic()
                with suppress(StoreError):
                    head = SessionHead(f"busy-{self.seed}", CHANNEL, started_at=NOW)
                    self.store.observe(head, [NewTurn("user", text, NOW, name)]).result()
                    kept = time.monotonic()
                    self.store.recall("river lantern copper", channel=CHANNEL)
                    out.write(json.dumps([name, text, kept - began, time.monotonic() - kept]) + "\n")
                    out.flush()
                stop.wait(0.05)


def die_at(point: str) -> None:
    """Have this process killed at a point of its next purge: before or after its nth call of something."""
    when, name, number = point.split(":")
    owner, method = {
        "intent": (Intent, "write"),
        "scrub": (Writer, "submit"),
        "erase": (Ledger, "erase"),
        "index": (Index, "compact"),
        "cache": (EmbeddingCache, "compact"),
        "ledger": (Ledger, "compact"),
        "remove": (Intent, "remove"),
    }[name]
    original, calls = getattr(owner, method), count(1)

    def killing(self: Any, *args: Any) -> Any:
        is_it = next(calls) == int(number)
        if is_it and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = original(self, *args)
        if is_it:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, method, killing)


def live(folder: Path, notes: Path, seed: int, point: str, pipe: int) -> NoReturn:
    """Work, choose, write down what is there, and purge; with a `point`, only until then."""
    try:
        life = Life(folder, seed)
        life.work()
        kind, selection, tokens = life.choose()
        (notes / "before").write_bytes(pickle.dumps(life.before(kind, tokens)))
        if point:
            die_at(point)
        stop = threading.Event()
        chatter = threading.Thread(target=life.chatter, args=(stop, notes / "said"))
        chatter.start()
        os.write(pipe, b"purging\n")
        life.store.purge(selection)
        stop.set()
        chatter.join()
        life.store.close()
        os.write(pipe, b"purged\n")
    except BaseException:
        os.write(pipe, b"failed " + traceback.format_exc()[-700:].replace("\n", " | ").encode() + b"\n")
    os._exit(0)


def finish(folder: Path, pipe: int) -> NoReturn:
    """Open what a kill left, and wait until the purge is done."""
    try:
        store = store_in(folder)
        until = time.monotonic() + 60
        while store.operations.purge.intent.is_there and time.monotonic() < until:
            time.sleep(0.02)
        done = not store.operations.purge.intent.is_there
        store.settle(30)
        store.close()
        os.write(pipe, b"purged\n" if done else b"failed it was not finished\n")
    except BaseException:
        os.write(pipe, b"failed " + traceback.format_exc()[-700:].replace("\n", " | ").encode() + b"\n")
    os._exit(0)


# ---- the parent


def files_of(root: Path) -> dict[str, bytes]:
    """Return the files of a vault."""
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*.md")}


def actions_of(ledger: Path) -> dict[int, tuple[Any, ...]]:
    """Return the actions of the history, with their images."""
    with closing(apsw.Connection(str(ledger), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        rows = connection.execute("SELECT id, state, path, node_id, pre_image, post_image FROM action")
        return {row[0]: (*row[1:4], unpacked(row[4]), unpacked(row[5])) for row in rows}


def purges_of(ledger: Path) -> set[str]:
    """Return the purges of the history."""
    with closing(apsw.Connection(str(ledger), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        return {run_id for (run_id,) in connection.execute("SELECT run_id FROM run WHERE kind = 'purge'")}


def leaks(folder: Path, tokens: Iterable[str]) -> Iterator[str]:
    """Yield where one of these words is, in a byte of any file, as it stands or compressed."""
    wanted = [word.encode() for word in tokens]
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        data = path.read_bytes()
        starts = [found.start() for found in re.finditer(b"\x78\x01", data)]
        data += b"\n".join(prove.unpacked_from(data, start) for start in starts)
        yield from (f"{path.name} holds {word.decode()}" for word in wanted if word in data.lower())


def losses(folder: Path, before: Before) -> Iterator[str]:
    """Yield what was lost beside what was to go."""
    files = files_of(folder / "vault")
    for path, data in before.files.items():
        held = data.decode()
        if not (before.tokens & set(TOKEN.findall(held)) or any(each in held for each in before.ids)):
            if files.get(path) != data:
                yield f"{path} is not as it was"
        elif path.startswith("sessions/"):
            yield from lost_turns(path, data, files.get(path, b""), before)
        elif not path.endswith(("index.md", "log.md")):
            yield from lost_lines(path, data, files.get(path), before)
    actions = actions_of(folder / "ledger.db")
    for number, row in before.actions.items():
        held = " ".join(part.decode() if isinstance(part, bytes) else str(part) for part in row)
        touched = before.tokens & set(TOKEN.findall(held)) or any(each in held for each in before.ids)
        if not touched and actions.get(number) != row:
            yield f"action {number} is not as it was"


def lost_turns(path: str, data: bytes, now: bytes, before: Before) -> Iterator[str]:
    after = {turn.ordinal: turn for turn in session.parse(now).turns}
    for turn in session.parse(data).turns:
        goes = bool(before.tokens & set(TOKEN.findall(turn.text)))
        wanted = (turn.external_id, session.ERASED if goes else turn.text)
        kept = after.get(turn.ordinal)
        if kept is None or (kept.external_id, kept.text) != wanted:
            yield f"turn {turn.ordinal} of {path} is not as it should be"


def lines_that_go(before: Before) -> set[str]:
    """Return the lines of facts that go, also those that a person added to them: a page's quote of one goes whole."""
    memories = (okf.to_memory(path, okf.parse(data)) for path, data in before.files.items() if b"level: L1" in data)
    gone = (memory.text for memory in memories if before.tokens & set(TOKEN.findall(memory.text)))
    return {line for text in gone for line in text.split("\n")}


def lost_lines(path: str, data: bytes, now: bytes | None, before: Before) -> Iterator[str]:
    """Compare a page or a fact: the lines that hold nothing of what goes must all be there."""
    old = okf.to_memory(path, okf.parse(data))
    if old.level is Level.FACT and before.tokens & set(TOKEN.findall(old.text)):
        if now is not None:
            yield f"{path} is still there"
        return
    labels = {label for node_id, label in okf.source_ids(old.sources).items() if node_id in before.ids}
    gone = lines_that_go(before)
    kept = [
        line
        for line in old.text.split("\n")
        if line.strip() and not line.startswith("#") and not before.tokens & set(TOKEN.findall(line))
        and not any(f"[^{label}]" in line for label in labels) and line not in gone
    ]  # fmt: skip
    text = (now or b"").decode()
    yield from (f"a line of {path} is lost" for line in kept if line not in text)


def unsaid(folder: Path, notes: Path) -> Iterator[str]:
    """Yield the turns that were acknowledged during the purge and are not there."""
    said = [json.loads(line) for line in (notes / "said").read_text().splitlines() if line.endswith("]")]
    text = "".join(data.decode() for path, data in files_of(folder / "vault").items() if "busy-" in path)
    for name, words, *_ in said:
        if f'id="{name}"' not in text or words not in text:
            yield f"turn {name} was acknowledged"


class Round:
    """A child, and the line that it said last."""

    def __init__(self, run: Any, *args: Any) -> None:
        self._reading, writing = os.pipe()
        self.said = ""
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._reading)
            run(*args, writing)
        os.close(writing)

    def listen(self) -> str:
        """Wait for a line; "" when the child has ended."""
        line = b""
        while not line.endswith(b"\n") and (byte := os.read(self._reading, 1)):
            line += byte
        self.said = line.decode().strip()
        return self.said

    def end(self, *, kill: bool = False) -> None:
        """Let go of it."""
        if kill:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._reading)


@dataclass
class Account:
    """What was tried, and what went wrong."""

    purges: int = 0
    killed: int = 0
    killed_midway: int = 0
    kinds: dict[str, int] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    keeping_s: list[float] = field(default_factory=list)
    recalling_s: list[float] = field(default_factory=list)
    purging_s: list[float] = field(default_factory=list)


def one_purge(folder: Path, gone: set[str], seed: int, account: Account, rng: random.Random, point: str = "") -> None:
    """Purge once, kill it or not, and look at what is left."""
    with tempfile.TemporaryDirectory() as name:
        notes = Path(name)
        (notes / "said").touch()
        child = Round(live, folder, notes, seed, point)
        said, began = child.listen(), time.monotonic()
        kill = account.purges % 2 == 1 or bool(point)
        if point and said == "purging":
            child.listen()  # it kills itself
        elif kill and said == "purging":
            time.sleep(rng.uniform(0.0, LONGEST_PURGE_S))
        elif said == "purging":
            said = child.listen()
            account.purging_s.append(time.monotonic() - began)
        child.end(kill=kill)
        account.purges += 1
        account.killed += kill
        if said.startswith("failed"):
            account.violations.append(f"{seed}: {said}")
            return
        if kill:
            account.killed_midway += (folder / "purge.json").exists()
            second = Round(finish, folder)
            said = second.listen()
            second.end()
            if said != "purged":
                account.violations.append(f"{seed}: {said}")
        before: Before = pickle.loads((notes / "before").read_bytes())
        begun = purges_of(folder / "ledger.db") != before.purges  # else it was killed before it was written down
        account.kinds[before.kind] = account.kinds.get(before.kind, 0) + 1
        if begun:
            gone |= before.tokens
            account.violations += [f"{seed} {before.kind}: {each}" for each in losses(folder, before)]
        account.violations += [f"{seed} {before.kind}: {each}" for each in leaks(folder, gone)]
        account.violations += [f"{seed} {before.kind}: {each}" for each in unsaid(folder, notes)]
        for line in (notes / "said").read_text().splitlines():
            if line.endswith("]"):
                *_, kept, recalled = json.loads(line)
                account.keeping_s.append(kept)
                account.recalling_s.append(recalled)


def main() -> int:
    """Print one JSON object; exit with 1 when anything was found, or lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--purges", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, metavar="N", help="one purge for every Nth step, killed right there")
    given = parser.parse_args()
    account, rng, began = Account(), random.Random(given.seed), time.monotonic()
    points = POINTS[:: given.steps] if given.steps else ()
    for number, point in enumerate(points):
        with tempfile.TemporaryDirectory() as name:
            one_purge(Path(name), set(), given.seed * 10_000 + number, account, rng, point)
    while not points and account.purges < given.purges:
        with tempfile.TemporaryDirectory() as name:
            gone: set[str] = set()
            for _ in range(min(PURGES_PER_FOLDER, given.purges - account.purges)):
                one_purge(Path(name), gone, given.seed * 10_000 + account.purges, account, rng)
    result = {
        "purges": account.purges,
        "killed": account.killed,
        "killed_midway": account.killed_midway,
        "kinds": account.kinds,
        "violations": len(account.violations),
        "first_violations": account.violations[:8],
        "purge_s": _spread(account.purging_s),
        "remember_during_s": _spread(account.keeping_s),
        "recall_during_s": _spread(account.recalling_s),
        "seconds": round(time.monotonic() - began, 1),
    }
    print(json.dumps(result, indent=2))
    return 1 if account.violations else 0


def _spread(seconds: list[float]) -> dict[str, float]:
    if not seconds:
        return {}
    ordered = sorted(seconds)
    at = {"p50": 0.5, "p95": 0.95, "max": 1.0}
    return {name: round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 4) for name, share in at.items()}


if __name__ == "__main__":
    sys.exit(main())
