"""Secrets sent in by every way: how many are gone from every byte on the disk, and how many alarms are false.

`python -m tests.bench.redaction` takes in seconds what needs no store: keys with their issuers left out, alarms, time.
`--corpus FOLDER` measures another author's corpus instead (see `unseen_secrets`), `--ways` by every way in too, and
`--read` prints what stays and what is wrongly taken.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import random
import statistics
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import apsw
from dreamd.daemon.clock import utc_now
from dreamd.daemon.importing.formats import claude_code
from dreamd.daemon.importing.importer import Importer
from dreamd.daemon.importing.items import SessionRead
from dreamd.ipc.call import Call
from dreamd.store import MemoryStore, StorePaths
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.model import InvalidInput, NewTurn, SessionHead
from dreamd.store.redaction import find
from dreamd.store.redaction import redaction as rules
from dreamd.store.settings import StoreSettings

from tests.json_strings import strings

from . import unseen_secrets as unseen
from .documented_secrets import documented
from .options import Options
from .planted_secrets import Planted, corpus
from .scratch import own_folder
from .table import Row, report, skipped

LEAST_GONE = 0.95
DRAWS = 1200
MOST_WRONG = 1 / 1000
FEWEST_CHARS = 20
AROUND_CHARS = 50
MOST_P50_MS, MOST_P95_MS = 1.0, 4.0
MOST_IMPORT_RATIO = 1.1
SETTLED_S = 600.0
"""Long enough for a busy machine: an import that is cut off in the middle took half the time."""

RIGHT = frozenset(
    (
        "14ffa6375bd5 6b4d242512e2 ef92b778bafe 1a5d44a2dca1 5757ff36f6e6 376dc967a152 ab72e01d684e 13d2c3ca9eb5 "
        "2add98f7d351 e41b3cfef3b3 8f8413587d67 734ecbc01f76 3049297b1476 be2647f97a75 5288a625c712 08923ec8502b "
        "941845c5871f 23da9739c61c"
    ).split()
)
"""Fingerprints of what is rightly taken from the development sets: each was read. What is not here counts as wrong."""

VERBS = "moved measured wrote tested dropped renamed".split()
NOUNS = "parser invoice ledger harbour schema token index report cache lantern".split()
HOW = "tests/bench/{}: {} secrets of {} kinds, searched for in all files and in what they hold packed"


@dataclass(frozen=True, slots=True)
class Way:
    """A way in. `is_by_hand`: the person's own files keep their bytes, everything else may not have them."""

    name: str
    send: Callable[[MemoryStore, Path, list[Planted]], None]
    is_by_hand: bool = False


def measure(options: Options) -> Iterator[Row]:
    """Measure each way in on a store of its own for each corpus, then alarms and time on the development sets."""
    for name, source, planted in (
        ("secrets", "planted_secrets.py", corpus(436)),
        ("documented secrets", "documented_secrets.py", documented(random.Random(5))),
    ):
        planted = planted[: options.of(len(planted), 60)]
        yield from _gone(name, planted, HOW.format(source, len(planted), len({one.kind for one in planted})))
    yield from unseen.leave_one_out(options.of(DRAWS, 400))
    yield from _alarms(options)
    yield _import_time(options)


def _gone(name: str, planted: list[Planted], how: str) -> Iterator[Row]:
    for way in WAYS:
        with own_folder("redaction") as folder:
            left = _left(way, folder, planted)
        share = 1 - len(left) / len(planted)
        listed = f"; left: {', '.join(sorted({one.kind for one in left})[:12])}" if left else ""
        yield Row(f"{name} gone, by {way.name}", f"{share:.1%}{listed}", "at least 95 %", share >= LEAST_GONE, how)


def _left(way: Way, folder: Path, planted: list[Planted]) -> list[Planted]:
    """Return the secrets of which something is on the disk after they came in by one way."""
    data = folder / "data"
    paths = StorePaths(
        *(data / name for name in ("vault", "ledger.db", "index/index.db", "index/embeddings.db", "runs"))
    )
    with_store(paths, lambda store: way.send(store, folder, planted))
    texts = [data.lower() for data in _held(data, skip=paths.vault if way.is_by_hand else None)]
    return [one for one in planted if any(piece.lower().encode() in text for piece in one.pieces for text in texts)]


def with_store(paths: StorePaths, use: Callable[[MemoryStore], object]) -> None:
    """Open a store, use it, let it find everything, and close it."""
    embedder = StubEmbedder()
    store = MemoryStore.open(paths, StoreSettings(), embedder, utc_now)
    try:
        store.wait_until_caught_up(60)
        use(store)
        if not store.settle(SETTLED_S):
            raise TimeoutError("not everything was found in time")
    finally:
        store.close()


def _held(folder: Path, skip: Path | None) -> Iterator[bytes]:
    """Yield every file, and what databases hold packed."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not (skip and path.is_relative_to(skip)):
            yield path.read_bytes()
    for path in sorted(folder.rglob("*.db")):
        yield from _packed(path)


def _packed(database: Path) -> Iterator[bytes]:
    connection = apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READONLY)
    tables = [
        name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT NULL")
    ]
    for table in tables:
        try:
            rows = list(connection.execute(f'SELECT * FROM "{table}"'))
        except apsw.SQLError:  # a table of an extension that is not loaded here
            continue
        for row in rows:
            for value in row:
                if isinstance(value, bytes) and value[:1] == b"x":
                    try:
                        yield zlib.decompress(value)
                    except zlib.error:
                        continue
    connection.close()


# ---- the ways in


def _remember(store: MemoryStore, _: Path, planted: list[Planted]) -> None:
    for one in planted:
        store.remember(one.text).result()


def _observe(store: MemoryStore, _: Path, planted: list[Planted]) -> None:
    for number, one in enumerate(planted):
        head = SessionHead(f"s{number % 20}", "shop", title=one.text[:60])
        store.observe(head, [NewTurn("user", one.text, utc_now(), f"t{number}")]).result()


def _import(store: MemoryStore, folder: Path, planted: list[Planted]) -> None:
    """Import a transcript of Claude Code: said, run in a shell, printed by it, and told as an error."""
    lines = []
    for number, one in enumerate(planted):
        said = {"type": "text", "text": one.text}
        run = {"type": "tool_use", "id": f"c{number}", "name": "Bash", "input": {"command": one.text}}
        result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": f"{'- ' * 60}{one.text}{' -' * 300}"}
        message = {"role": "assistant", "content": [said, run]}
        lines += [
            _line("user", {"role": "user", "content": one.text}, number, "u"),
            _line("assistant", message, number, "a"),
        ]
        lines.append(_line("user", {"role": "user", "content": [result]}, number, "r"))
    (folder / "session.jsonl").write_text("\n".join(lines))
    notes = folder / "notes"
    notes.mkdir()
    for number, one in enumerate(planted):
        (notes / f"n{number}.md").write_text(f"# Note {number}\n\n{one.text}\n")
    Importer(store, Call(None, "import")).take([folder / "session.jsonl", notes], None)


def _line(kind: str, message: object, number: int, mark: str) -> str:
    return json.dumps(
        {
            "type": kind,
            "message": message,
            "uuid": f"{mark}{number}",
            "sessionId": "s1",
            "cwd": "/home/me/shop",
            "timestamp": f"2026-11-20T{number // 60 % 24:02d}:{number % 60:02d}:00Z",
        }
    )


def _edit(store: MemoryStore, _: Path, planted: list[Planted]) -> None:
    """Write them into the vault: into a session, into memories, and into notes of a person's own; then ask."""
    store.observe(
        SessionHead("s1", "shop"), [NewTurn("user", f"turn {n}", utc_now(), f"t{n}") for n in range(5)]
    ).result()
    store.settle()
    (session,) = store.paths.vault.glob("sessions/**/*.md")
    for number, one in enumerate(planted):
        (store.paths.vault / f"note{number}.md").write_text(f"---\ntype: Note\ntitle: n{number}\n---\n\n{one.text}\n")
    session.write_text(session.read_text().replace("turn 3", "\n".join(one.text for one in planted)))
    store.reconcile()
    store.settle()
    answers = [store.recall(one.text[:40]) for one in planted[::10]]
    told = "\n".join(hit.text for answer in answers for hit in answer.hits)
    store.paths.ledger.with_name("answers.txt").write_text(told)  # searched like every other file


def _ask(store: MemoryStore, _: Path, planted: list[Planted]) -> None:
    store.remember("Where the deploy keys and passwords of the shop are written down").result()
    store.settle()
    for one in planted:
        store.recall(one.text)
        store.context(one.text)


def _fields(store: MemoryStore, _: Path, planted: list[Planted]) -> None:
    """Put them where names go: ids, tags, a title, a folder; those that cannot be names are refused."""
    for number, one in enumerate(planted):
        name = " ".join(one.text.split())[:250].strip()
        head = SessionHead(f"s{number}", "shop", one.text, utc_now(), name, name, name, f"/home/me/{name}")
        try:
            store.observe(head, [NewTurn(name, "hello", utc_now(), name)]).result()
            store.remember(f"fact {number}", tags=[name], agent_id=name, title=one.text).result()
        except InvalidInput:
            continue


WAYS = (
    Way("remember", _remember),
    Way("observe", _observe),
    Way("import", _import),
    Way("hand edit", _edit, is_by_hand=True),
    Way("a question", _ask),
    Way("other fields", _fields),
)


# ---- false alarms and time


@dataclass(frozen=True, slots=True)
class Alarm:
    """What was taken from a text of the development sets."""

    kind: str
    taken: str
    around: str

    @property
    def fingerprint(self) -> str:
        """Name it without telling it: the list of those that are right holds no secret."""
        return hashlib.sha256(self.taken.encode()).hexdigest()[:12]

    @property
    def is_right(self) -> bool:
        """True of what was read and is a secret."""
        return self.fingerprint in RIGHT


def _alarms(options: Options, *, read: bool = False) -> Iterator[Row]:
    sets = {"turns of real sessions": list(real_turns(options.data)), "other texts": list(texts_of(options.data))}
    if not any(sets.values()):
        yield skipped("secrets: false alarms", "at most 1 in 1,000", f"{options.data} is not there")
        return
    took_ms: list[float] = []
    for name, texts in sets.items():
        alarms = list(_taken(texts, took_ms))
        wrong = [alarm for alarm in alarms if not alarm.is_right]
        for alarm in wrong if read else ():
            print(f"wrong  {alarm.fingerprint} {alarm.kind}: {alarm.taken!r} in {alarm.around!r}")
        yield Row(
            f"secrets: wrongly taken, of {len(texts):,} {name}",
            f"{len(wrong)} of {len(alarms)} taken",
            "at most 1 in 1,000",
            len(wrong) <= len(texts) * MOST_WRONG,
            "the development sets; wrong is what nobody has read and found right",
        )
    yield from _times(took_ms, sum(len(text) for texts in sets.values() for text in texts))


def _taken(texts: list[str], took_ms: list[float]) -> Iterator[Alarm]:
    for text in texts:
        began = time.process_time()
        found = find(text)
        took_ms.append((time.process_time() - began) * 1000)
        for start, end, kind in found:
            yield Alarm(kind, text[start:end], text[max(0, start - AROUND_CHARS) : end + AROUND_CHARS])


def _times(took_ms: list[float], chars: int) -> Iterator[Row]:
    per_kb = sum(took_ms) / (chars / 1000)
    yield Row("secrets: processor's time a thousand characters", f"{per_kb:.3f} ms", "", None, f"{chars:,} characters")
    took_ms.sort()
    p50, p95 = took_ms[len(took_ms) // 2], took_ms[int(len(took_ms) * 0.95)]
    ok = p50 <= MOST_P50_MS and p95 <= MOST_P95_MS
    yield Row("secrets: time a text, p50 / p95", f"{p50:.2f} / {p95:.2f} ms", "1 / 4 ms", ok, "the same texts")


def texts_of(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".json", ".jsonl"):
            whole = path.read_text()
            for piece in whole.splitlines() if path.suffix == ".jsonl" else (whole,):
                yield from (text for text in strings(json.loads(piece)) if len(text) >= FEWEST_CHARS)
        elif path.suffix in (".md", ".txt"):
            yield path.read_text()


def real_turns(data: Path) -> Iterator[str]:
    """Yield the turns of the packed sessions of Claude Code, as the daemon reads them."""
    with own_folder("redaction-sessions") as folder:
        for packed in sorted(data.rglob("*.jsonl.gz")):
            session = folder / packed.stem
            session.write_bytes(gzip.decompress(packed.read_bytes()))
            for item in claude_code.read(session):
                if isinstance(item, SessionRead):
                    yield from (turn.text for turn in item.turns)


def _import_time(options: Options) -> Row:
    """Compare imports with the rules and without, one after the other, by the processor's time of all threads."""
    turns, pairs = options.of(10_000, 500), options.of(5, 1)
    with own_folder("redaction-import") as folder:
        chat = folder / "chat.jsonl"
        chat.write_text("\n".join(_said(number) for number in range(turns)))
        with_rules, without = [], []
        for pair in range(pairs):
            with_rules.append(_import_s(folder / f"with{pair}", chat))
            with mock.patch.object(rules, "find", return_value=[]):
                without.append(_import_s(folder / f"without{pair}", chat))
    ratio = statistics.median(with_rules) / statistics.median(without)
    return Row(
        f"import of {turns} turns, with redaction / without",
        f"{ratio:.3f}",
        f"at most {MOST_IMPORT_RATIO}",
        ratio <= MOST_IMPORT_RATIO,
        f"medians of {pairs} interleaved runs, the processor's time",
    )


def _said(number: int) -> str:
    """Return a line of a chat: a few sentences, in each tenth a listing."""
    rng = random.Random(number)
    text = " ".join(
        f"We {rng.choice(VERBS)} the {rng.choice(NOUNS)} of {rng.choice(NOUNS)} {number}." for _ in range(5)
    )
    if number % 10 == 0:
        text += "".join(
            f"\n{line:>6}\t{rng.choice(NOUNS)}_{line} = load('{rng.choice(NOUNS)}/{line}.json')" for line in range(40)
        )
    at = f"2026-11-{1 + number // 1000:02d}T{number // 60 % 24:02d}:{number % 60:02d}:00+00:00"
    return json.dumps(
        {
            "session": f"s{number // 50}",
            "role": ("user", "assistant")[number % 2],
            "content": text,
            "timestamp": at,
            "id": str(number),
        }
    )


def _import_s(folder: Path, chat: Path) -> float:
    paths = StorePaths(
        *(folder / name for name in ("vault", "ledger.db", "index/index.db", "index/embeddings.db", "runs"))
    )
    began = time.process_time()
    with_store(paths, lambda store: Importer(store, Call(None, "import")).take([chat], None))
    return time.process_time() - began


# ---- by hand


def main() -> int:
    """Measure what was asked for; return 1 when a promise is missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.redaction", description=__doc__)
    parser.add_argument("--corpus", type=Path, help="a folder with secrets.jsonl and innocents.jsonl")
    parser.add_argument("--ways", action="store_true", help="the corpus by every way in, too: every byte is searched")
    parser.add_argument("--read", action="store_true", help="print each secret that stays and each alarm")
    given = parser.parse_args()
    return report(_asked(given.corpus, ways=given.ways, read=given.read))


def _asked(folder: Path | None, *, ways: bool, read: bool) -> Iterator[Row]:
    if folder is None:
        yield from unseen.leave_one_out(DRAWS, read=read)
        yield from _alarms(Options(), read=read)
        return
    yield from unseen.of_corpus(folder, read=read)
    if ways:
        planted = list(unseen.secrets_of(folder))
        yield from _gone("unseen secrets", planted, f"{len(planted)} secrets, searched for in all files")


if __name__ == "__main__":
    sys.exit(main())
