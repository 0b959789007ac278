"""The commands that check, repair and keep safe: check, rebuild, migrate, salvage, backup.

All but `migrate` work without a daemon too. `salvage`, `migrate --to`, and the way back from a backup (`restore FILE`)
only work then.

Without a daemon each takes the daemon's own lock, so that none starts meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...ipc.client import Absent, ClientError, Unreachable
from ..formatting import DIM, RED, YELLOW, Look, clean, count, duration, listing, sentence, size
from .request import OnProgress, ask, shown_progress
from .terminal import Terminal

if TYPE_CHECKING:
    from ...ipc.protocol import Json
    from ...store import MemoryStore
    from ..settings import Settings

POLL_S = 0.2

ONLY_BY_DAEMON = "the vault's files, and what of them is found: only a daemon compares them; start it with `dreamd`"


def check_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of check."""
    parser.add_argument("bundle", nargs="?", metavar="BUNDLE", help="instead: a bundle of `export`, byte for byte")
    parser.add_argument(
        "--accept", action="store_true", help="accept that files which vanished from the vault are deleted"
    )


def check(options: Namespace, terminal: Terminal) -> int:
    """Print problems; without a daemon, only those of the settings and the databases."""
    if options.bundle:
        return _check_bundle(Path(options.bundle).expanduser().absolute(), terminal)
    offline = {}
    try:
        answer = ask(terminal, "check", {"accept": options.accept or None}, timeout_s=None)
    except Unreachable as error:
        if options.accept:
            raise
        from ..host.settings_check import complaints

        answer = {"problems": [], "settings_problems": complaints()}
        offline = {"daemon": str(error), "not_looked_at": "the data: where it lies is not known"}
        if not answer["settings_problems"]:
            answer["problems"], offline["not_looked_at"] = _check_alone()
    terminal.report({**answer, **offline}, check_in_words(answer, terminal.look))
    if offline:
        terminal.note(f"no daemon answers; not looked at: {offline['not_looked_at']}")
    wrong = [problem for problem in answer["problems"] if problem["severity"] != "note"]
    return 1 if wrong or answer["settings_problems"] else 0


def _check_bundle(path: Path, terminal: Terminal) -> int:
    with _errors_in_words():
        from dataclasses import asdict

        from ...store import check_bundle

        with shown_progress(terminal, "Verifying") as on_progress:
            answer = asdict(check_bundle(path, _staged(on_progress)))
    terminal.report(answer, bundle_in_words(answer, terminal.look))
    return 0


def rebuild_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of rebuild."""
    parser.add_argument(
        "--from", dest="source", metavar="PATH", help="a new memory of a vault's folder or a bundle, where none is yet"
    )


def rebuild(options: Namespace, terminal: Terminal) -> int:
    """Rebuild the index, or make a memory of a vault or a bundle."""
    if options.source:
        return _rebuild_from(Path(options.source).expanduser().absolute(), terminal)
    with shown_progress(terminal, "Rebuilding") as on_progress:
        try:
            answer = ask(terminal, "rebuild", {}, on_progress, timeout_s=None)
        except Absent:
            if not _is_in_use():
                raise
            answer = _rebuild_alone(on_progress)
    terminal.report(answer, rebuild_in_words(answer, terminal.look))
    return 0


def migrate_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of migrate."""
    parser.add_argument("--dry-run", action="store_true", help="only show what would move")
    parser.add_argument("--to", metavar="BACKEND", help="instead, have another engine search, once it has all chunks")
    parser.add_argument("--drop", action="store_true", help="with --to: remove the copy that a server has from before")


def migrate(options: Namespace, terminal: Terminal) -> int:
    """Move a vault of before into folders by project, or the index to another search engine."""
    if options.drop and not options.to:
        from .main import UsageError

        raise UsageError("--drop goes with --to", "`dreamctl migrate --to sqlite-vec --drop`")
    if options.to:
        with shown_progress(terminal, "Moving the index") as on_progress:
            answer = _move_index(options.to, options.drop, on_progress)
        terminal.report(answer, moved_in_words(answer, terminal.look))
        return 0
    with shown_progress(terminal, "Moving") as on_progress:
        answer = ask(terminal, "migrate", {"dry_run": options.dry_run or None}, on_progress, timeout_s=None)
    terminal.report(answer, migrate_in_words(answer, terminal.look))
    return 0


def salvage_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of salvage."""
    parser.add_argument("--discard", action="store_true", help="start anew without what was damaged or lost")


def salvage(options: Namespace, terminal: Terminal) -> int:
    """Recover the contents of a damaged ledger, while no daemon runs."""
    with _without_daemon() as settings:
        from dataclasses import asdict

        from ...store import discard_ledgers, salvage_ledgers
        from ..settings import store_paths

        ledger = store_paths(settings).ledger
        answer: dict[str, Any] = (
            {"discarded": discard_ledgers(ledger)}
            if options.discard
            else {"salvaged": [asdict(one) for one in salvage_ledgers(ledger)]}
        )
    terminal.report(answer, salvage_in_words(answer, terminal.look))
    return 0


def backup_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of backup."""
    parser.add_argument("path", metavar="FILE|FOLDER", help="a new file (NAME.tar.gz), or a folder to put one into")
    parser.add_argument("--verify", action="store_true", help="write nothing: read FILE, and compare every hash")


def backup(options: Namespace, terminal: Terminal) -> int:
    """Back up vault, history and settings, or verify a backup."""
    path = Path(options.path).expanduser().absolute()
    if options.verify:
        with _errors_in_words():
            from ...store import read_archive

            with shown_progress(terminal, "Verifying") as on_progress:
                manifest = read_archive(path, _staged(on_progress))
        answer: dict[str, Any] = {"path": str(path), "files": len(manifest.files), "made_at": manifest.made_at}
        terminal.report(answer, verified_in_words(answer, terminal.look))
        return 0
    with shown_progress(terminal, "Backing up") as on_progress:
        try:
            answer = ask(terminal, "backup", {"path": str(path)}, on_progress, timeout_s=None)
        except Absent:
            if not _is_in_use():
                raise
            answer = _back_up_alone(path, on_progress)
    terminal.report(answer, backup_in_words(answer, terminal.look))
    return 0


def restore_from(path: str, terminal: Terminal) -> int:
    """Restore a backup where nothing is remembered, while no daemon runs."""
    archive = Path(path).expanduser().absolute()
    with shown_progress(terminal, "Restoring") as on_progress, _without_daemon() as settings:
        from ...store import restore_backup
        from ..settings import store_paths

        manifest = restore_backup(archive, settings.data_dir, store_paths(settings), _staged(on_progress))
    answer = {"data_dir": str(settings.data_dir), "files": len(manifest.files), "made_at": manifest.made_at}
    terminal.report(answer, restored_in_words(answer, terminal.look))
    return 0


# ---- without a daemon


def _check_alone() -> tuple[list[Json], str]:
    """Check the databases and the vault's folder; return problems, and what was not checked. Raises ClientError."""
    with _errors_in_words():
        from ..settings import load

        data_dir = load().data_dir
        if not data_dir.is_dir():
            return [], f"{data_dir}, where nothing was ever kept"
    with _without_daemon() as settings:
        from dataclasses import asdict

        from ...store import check_closed
        from ..settings import store_paths

        return [asdict(problem) for problem in check_closed(store_paths(settings))], ONLY_BY_DAEMON


def _rebuild_alone(on_progress: OnProgress | None) -> Json:
    """Rebuild the index. Raises ClientError."""
    progress = partial(_staged(on_progress), "rebuild")
    with _without_daemon() as settings:
        from dataclasses import asdict

        with _opened(settings) as store:
            return asdict(store.rebuild(progress))


def _rebuild_from(source: Path, terminal: Terminal) -> int:
    """Make a memory of a vault's folder or a bundle, where nothing is remembered, while no daemon runs."""
    with shown_progress(terminal, "Rebuilding") as on_progress, _without_daemon() as settings:
        from dataclasses import asdict

        from ...store import lay_bundle, made_of
        from ..settings import store_paths

        laid = lay_bundle(source, store_paths(settings), _staged(on_progress))
        with _opened(settings) as store:
            rebuilt = store.rebuild(partial(_staged(on_progress), "rebuild"))
            answer = {**asdict(made_of(store.core, laid)), **asdict(rebuilt)}
    terminal.report(answer, made_in_words(answer, terminal.look))
    return 1 if answer["differences"] else 0


@contextlib.contextmanager
def _opened(settings: Settings) -> Iterator[MemoryStore]:
    """Open the store without a daemon, whose lock is held."""
    from ...store import MemoryStore, embedder_for
    from ..clock import utc_now
    from ..settings import store_paths

    paths = store_paths(settings)
    embedder = embedder_for(settings.store.embedding, paths.models)
    embedder.start()
    with contextlib.closing(MemoryStore.open(paths, settings.store, embedder, utc_now)) as store:
        yield store


def _move_index(backend: str, drop: bool, on_progress: OnProgress | None) -> Json:
    """Fill another search engine, compare it with the index, and then set it. Raises ClientError, with nothing set.

    `drop`: then remove the copy that a server has from before.
    """
    with _without_daemon() as settings:
        from ...store import MemoryStore, embedder_for
        from ...store.model import StoreError
        from ...store.settings import StoreSettings
        from ..clock import utc_now
        from ..host.settings_check import missing_package
        from ..settings import default_config_path, store_paths, with_backend

        config, paths = default_config_path().resolve(), store_paths(settings)
        if "DREAMD_STORE__BACKEND" in os.environ:
            raise ClientError("DREAMD_STORE__BACKEND sets the engine", "Unset it: the settings file is to say it.")
        for trouble in missing_package(backend):
            raise ClientError(trouble)
        text = with_backend(config.read_text(encoding="utf-8") if config.exists() else "", backend)
        try:
            chosen = StoreSettings.model_validate(settings.store.model_dump() | {"backend": backend})
        except ValueError:
            raise ClientError(f"there is no search engine {backend}") from None
        embedder = embedder_for(settings.store.embedding, paths.models)
        embedder.start()
        progress = _staged(on_progress)
        with contextlib.closing(MemoryStore.open(paths, settings.store, embedder, utc_now)) as store:
            before = store.status().chunks
        with contextlib.closing(MemoryStore.open(paths, chosen, embedder, utc_now)) as store:
            if store.status().chunks != before:
                store.rebuild(partial(progress, "reading the vault"))
            while (server := store.status().server) is not None and server.state != "in step":
                if server.state == "away" and not server.problem.endswith("not reached yet"):
                    raise ClientError(f"{server.problem}; nothing is set")
                progress("sending chunks", before - server.waiting, before)
                time.sleep(POLL_S)
            chunks, left = store.status().chunks, store.core.opened.left_copy(paths.dsn)
            if chunks != before:
                hint = "See `dreamctl check`."
                raise ClientError(f"{backend} has {chunks} chunks of {before}; nothing is set", hint)
            config.parent.mkdir(parents=True, exist_ok=True)
            fresh = config.with_name(f"{config.name}.new")
            fresh.write_text(text, encoding="utf-8")
            if config.exists():
                fresh.chmod(config.stat().st_mode)
            fresh.replace(config)
            answer = {"backend": backend, "chunks": chunks, "settings": str(config), "compared": server is not None}
            answer |= {"copy": left, "dropped": False, "problem": ""}
            if left and drop:
                try:
                    store.core.opened.drop_copy(paths.dsn)
                    answer["dropped"] = True
                except (StoreError, ImportError) as error:  # the engine is set already
                    answer["problem"] = str(error)
        return answer


def _back_up_alone(path: Path, on_progress: OnProgress | None) -> Json:
    """Back up while no daemon writes. Raises ClientError."""
    with _without_daemon() as settings:
        from dataclasses import asdict

        from ... import __version__
        from ...store import make_backup
        from ..clock import utc_now
        from ..host.settings_check import settings_without_secrets
        from ..settings import default_config_path, store_paths

        kept = settings_without_secrets(default_config_path())
        progress = _staged(on_progress)
        paths = store_paths(settings)
        return asdict(make_backup(paths, path, now=utc_now(), version=__version__, settings=kept, progress=progress))


def _staged(on_progress: OnProgress | None) -> Callable[[str, int, int], None]:
    def progress(stage: str, done: int, total: int) -> None:
        if on_progress is not None:
            on_progress({"stage": stage, "done": done, "total": total, "note": ""})

    return progress


def _is_in_use() -> bool:
    """Return True if the settings name a ledger that exists."""
    with _errors_in_words():
        from ..settings import load, store_paths

        return store_paths(load()).ledger.exists()


@contextlib.contextmanager
def _without_daemon() -> Iterator[Settings]:
    """Take the daemon's lock for a block, whose files are private. Raises ClientError, for the block's errors too."""
    with _errors_in_words():
        from ..host.lock import DaemonLock
        from ..settings import load

        os.umask(0o077)  # as the daemon does
        settings = load()
        lock = DaemonLock(settings.data_dir, settings.vault)
        lock.acquire()
        try:
            yield settings
        finally:
            lock.release()


@contextlib.contextmanager
def _errors_in_words() -> Iterator[None]:
    from ...store.model import StoreError
    from ..host.lock import AlreadyRunning
    from ..settings import SettingsError

    try:
        yield
    except (AlreadyRunning, StoreError, SettingsError) as error:
        raise ClientError(str(error), error.hint) from error
    except OSError as error:
        raise ClientError(f"{error.strerror}: {error.filename}", "Look at the disk.") from error


# ---- in words


def check_in_words(answer: Json, look: Look) -> list[str]:
    """List the problems, those of the settings first."""
    lines: list[str] = []
    for problem in answer["settings_problems"]:
        lines += [look.paint(line, RED) for line in look.wrap(sentence(f"settings: {problem}"))]
    for found in answer["problems"]:
        severity = found["severity"]
        colour = {"error": RED, "warning": YELLOW}.get(severity, DIM)
        place = f"{found['path']}: " if found["path"] else ""
        lines += look.wrap(f"{severity}: {place}{sentence(found['problem'])}")
        lines[-1] = lines[-1] if not look.colour else lines[-1].replace(severity, look.paint(severity, colour), 1)
    return lines or ["No problems."]


def rebuild_in_words(answer: Json, look: Look) -> list[str]:
    """Count the files, nodes and chunks, and the new embeddings."""
    text = (
        f"The index is rebuilt from {count(answer['files'], 'file')}: {count(answer['nodes'], 'node')}, "
        f"{count(answer['chunks'], 'chunk')}, {answer['embedded']:,} of them embedded anew, "
        f"in {duration(answer['seconds'])}."
    )
    return look.wrap(text)


def migrate_in_words(answer: Json, look: Look) -> list[str]:
    """Count the files that moved, or would; name the first of them, and those that stay."""
    run, moved = answer["run_id"], count(answer["moved"], "memory", "memories")
    if not (run or answer["moved"]):
        lines = ["Nothing is to be moved."]
    elif run:
        lines = look.wrap(f"{moved} moved, and the links in {count(answer['linked'], 'other file')} follow them.")
        lines += look.wrap(f"`dreamctl undo {run}` moves them back.")
    else:
        lines = look.wrap(f"{moved} would move, and the links in {count(answer['linked'], 'other file')} follow them:")
        lines += [f"  {clean(old)}\n    {clean(new)}" for old, new in answer["moves"]]
        more = answer["moved"] - len(answer["moves"])
        lines += [look.paint(f"  and {more:,} more", DIM)] if more > 0 else []
    return lines + [line for path, why in answer["left"] for line in look.wrap(f"stays: {path}: {sentence(why)}")]


def moved_in_words(answer: Json, look: Look) -> list[str]:
    """Name the engine that has the index now, and how that was seen."""
    compared = ", as many as the index, and those that were compared are alike" if answer["compared"] else ""
    lines = look.wrap(
        f"{answer['backend']} has {count(answer['chunks'], 'chunk')}{compared}; {answer['settings']} names it from now"
        " on. Start dreamd."
    )
    if not (copy := answer["copy"]):
        return lines
    if answer["dropped"]:
        return lines + look.wrap("The copy on the server is removed.")
    failed = f" It could not be removed: {answer['problem']}." if answer["problem"] else ""
    return lines + look.wrap(
        f"The copy on the server that store.dsn names stays ({copy}), and no purge reaches it.{failed}"
        f" `dreamctl migrate --to {answer['backend']} --drop` removes it."
    )


def backup_in_words(answer: Json, look: Look) -> list[str]:
    """Name the archive, its size, and the things that were left out."""
    text = (
        f"{answer['path']} holds {count(answer['files'], 'file')} in {size(answer['size_bytes'])}, and was read back."
        f" Writes were held for {1e3 * answer['held_s']:.0f} ms of {duration(answer['seconds'])}."
    )
    lines = look.wrap(text)
    if left := answer["left_out"]:
        lines += look.wrap(f"Left out, since they are no regular files: {listing(left, 5)}.")
    return lines


def bundle_in_words(answer: Json, look: Look) -> list[str]:
    """Count the contents of a bundle that is as it was written."""
    held = f"{count(answer['memories'], 'memory', 'memories')} and {count(answer['sessions'], 'session')}"
    state = f", {count(answer['decisions'], 'decision')}, state {answer['state'][:12]}" if answer["state"] else ""
    return look.wrap(f"{clean(answer['path'])} is whole: {held}{state}.")


def made_in_words(answer: Json, look: Look) -> list[str]:
    """Count the contents of a memory that was made of a bundle, and name the differences."""
    bundle = answer["bundle"]
    held = f"{count(answer['memories'], 'memory', 'memories')}, {count(bundle['sessions'], 'session')}"
    taken = f" What was taken back there ({answer['forbidden']}) no dream proposes." if answer["forbidden"] else ""
    lines = look.wrap(
        f"{clean(answer['vault'])} holds what {clean(bundle['path'])} does: {held} with"
        f" {count(answer['turns'], 'turn')}, {count(answer['links'], 'link')}. Its history begins now.{taken}"
    )
    lines += [look.paint(clean(one), YELLOW) for one in answer["differences"]]
    return [*lines, *look.wrap("`dreamctl install`, or `dreamd`, starts it.")]


def verified_in_words(answer: Json, look: Look) -> list[str]:
    """Count the files that are as they were saved."""
    return look.wrap(f"All {count(answer['files'], 'file')} are as they were saved on {answer['made_at'][:16]}.")


def restored_in_words(answer: Json, look: Look) -> list[str]:
    """Say where the memory is, and how it is used."""
    lines = look.wrap(f"The memory of {answer['made_at'][:16]} is in {answer['data_dir']}.")
    return lines + look.wrap(
        "Start dreamd: it builds the index from it. Settings of then, if any: settings.toml there."
    )


def salvage_in_words(answer: dict[str, Any], look: Look) -> list[str]:
    """Count the rows recovered from each file, and name the file that is kept."""
    if "discarded" in answer:
        kept = f" What was damaged stays as {listing(answer['discarded'])}." if answer["discarded"] else ""
        return look.wrap(f"dreamd goes on without it.{kept}")
    lines: list[str] = []
    for one in answer["salvaged"]:
        rows = [f"{number:,} of {clean(table)}" for table, number in one["rows"].items() if number]
        lost = f"; {count(one['lost'], 'row')} could not be read" if one["lost"] else ""
        back = listing(rows) if rows else "nothing"
        lines += look.wrap(f"Brought back from {one['file']}: {back}{lost}. The file stays as {one['kept_as']}.")
    return lines or ["No damaged ledger is there."]
