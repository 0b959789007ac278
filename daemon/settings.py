"""Every setting of the daemon: defaults, then one TOML file, then `DREAMD_…` of the environment."""

from __future__ import annotations

import difflib
import json
import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import platformdirs
from pydantic import BaseModel, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from ..ipc.settings import IpcSettings
from ..llm.settings import LlmSettings
from ..pipelines.settings import PipelineSettings
from ..store.settings import StoreSettings

if TYPE_CHECKING:
    from ..store import StorePaths


PREFIX = "DREAMD_"
# Read by those who cannot read settings: this module itself, the thin client, and an agent's hook.
NOT_SETTINGS = frozenset({"DREAMD_CONFIG", "DREAMD_SOCKET", "DREAMD_NO_HOOKS"})


class SettingsError(Exception):
    """Settings that cannot be followed. The message names file and key; `hint` says what to write instead."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class LogSettings(BaseModel, extra="forbid", frozen=True):
    """The log's level and place: always stderr, a rotated file as well if one is named."""

    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    file: Path | None = None


class WatchSettings(BaseModel, extra="forbid", frozen=True):
    """The watch on the vault for edits by hand."""

    enabled: bool = True
    debounce_s: float = Field(0.2, ge=0.02, le=5)


class TranscriptSettings(BaseModel, extra="forbid", frozen=True):
    """The sessions of agents that are followed: agents by name (claude-code, codex, gemini, opencode), or folders.

    `dreamctl watch` adds others. A session that did not grow for `quiet_minutes` has ended.
    """

    watch: tuple[str, ...] = ()
    quiet_minutes: float = Field(10, ge=0.1, le=1440)


class Settings(BaseSettings):
    """The whole of it. `load` is the way in: it turns what pydantic says into sentences."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_nested_delimiter="__", extra="forbid", frozen=True)

    data_dir: Path = Field(default_factory=lambda: Path(platformdirs.user_data_dir("dreamd", appauthor=False)))
    vault_dir: Path | None = Field(None, description="`vault/` in the data folder, unless it is somewhere else")
    log: LogSettings = LogSettings()
    watch: WatchSettings = WatchSettings()
    transcripts: TranscriptSettings = TranscriptSettings()
    store: StoreSettings = StoreSettings()
    ipc: IpcSettings = IpcSettings()
    pipelines: PipelineSettings = PipelineSettings()
    llm: LlmSettings = LlmSettings()

    @property
    def vault(self) -> Path:
        """The vault's folder."""
        return self.vault_dir or self.data_dir / "vault"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Let the environment win over the file, which `load` passes in; `.env` and secrets folders are not read."""
        return env_settings, init_settings


def default_config_path(environ: Mapping[str, str] = os.environ) -> Path:
    """Return `$DREAMD_CONFIG`, else `dreamd.toml` in the platform's config folder."""
    if named := environ.get("DREAMD_CONFIG"):
        return Path(named)
    return Path(platformdirs.user_config_dir("dreamd", appauthor=False)) / "dreamd.toml"


def load(path: Path | None = None) -> Settings:
    """Read the settings. Raises SettingsError; a missing file is fine unless it was named."""
    file = path or default_config_path()
    values = _read_toml(file, must_exist=path is not None or "DREAMD_CONFIG" in os.environ)
    _refuse_unknown_variables(os.environ)
    try:
        settings = Settings(**values)
    except ValidationError as error:
        raise _explain(error, file, values) from None
    except ValueError as error:
        raise SettingsError(f"an environment variable does not parse: {error}") from None
    return _absolute(settings)


def _read_toml(file: Path, *, must_exist: bool) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if must_exist:
            raise SettingsError(f"{file} is not there.", "Unset DREAMD_CONFIG, or write the file.") from None
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file} cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{file} is not TOML: {error}.", "Mend that line, or move the file away.") from error


def _absolute(settings: Settings) -> Settings:
    """Resolve `~` and relative parts of the paths, so that no later change of folder moves them."""
    return settings.model_copy(
        update={
            "data_dir": _whole(settings.data_dir),
            "vault_dir": _whole(settings.vault_dir),
            "log": settings.log.model_copy(update={"file": _whole(settings.log.file)}),
            "llm": settings.llm.model_copy(update={"api_key_file": _whole(settings.llm.api_key_file)}),
        }
    )


def _whole(place: Path | None) -> Path | None:
    return place.expanduser().absolute() if place is not None else None


def _explain(error: ValidationError, file: Path, values: Mapping[str, Any]) -> SettingsError:
    """Build one sentence for the first thing that is wrong, with a count of the others. Values are not repeated."""
    problems = error.errors(include_url=False, include_input=False)
    first = problems[0]
    loc = [str(part) for part in first["loc"] if isinstance(part, str)]  # of a list, the list itself
    in_file = _is_in(values, loc)
    place = f"{file}: {'.'.join(loc)}" if in_file else _that_is_set(_variable(".".join(loc)))
    more = f" ({len(problems) - 1} more)" if len(problems) > 1 else ""
    if first["type"] != "extra_forbidden":
        said = "it has too few values" if first["type"] == "missing" else first["msg"].lower()
        return SettingsError(f"{place}: {said}{more}.", "Mend it or leave it out for the default.")
    return SettingsError(f"{place} is no setting{more}.", _advice(loc, in_file=in_file))


def _is_in(values: Mapping[str, Any], loc: list[str]) -> bool:
    return value_at(values, loc) is not None


def value_at(values: Any, loc: list[str]) -> Any:
    """Return what nested tables hold under a key's parts; None where they do not go that far."""
    for part in loc:
        if not isinstance(values, Mapping) or part not in values:
            return None
        values = values[part]
    return values


def _advice(loc: list[str], *, in_file: bool) -> str:
    """Name the nearest known key: by the whole of it, else by its last part."""
    known = list(known_keys(Settings))
    near = difflib.get_close_matches(".".join(loc), known, n=1, cutoff=0.6)
    if not near:
        by_leaf = {key.rpartition(".")[2]: key for key in known}
        near = [by_leaf[leaf] for leaf in difflib.get_close_matches(loc[-1], by_leaf, n=1, cutoff=0.7)]
    if not near:
        return "Leave it out."
    return f"Did you mean {near[0] if in_file else _variable(near[0])}?"


def _that_is_set(variable: str) -> str:
    """Return the variable that a person wrote, of which the unknown key may be the beginning only."""
    return next((name for name in sorted(os.environ) if name.upper().startswith(variable)), variable)


def _variable(key: str) -> str:
    return PREFIX + key.replace(".", "__").upper()


def known_keys(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Yield every key that may be set, dotted."""
    for name, info in model.model_fields.items():
        kind = info.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield prefix + name
            yield from known_keys(kind, f"{prefix}{name}.")
        else:
            yield prefix + name


def secret_keys(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Yield every key that holds a secret, dotted."""
    for name, info in model.model_fields.items():
        kind = info.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from secret_keys(kind, f"{prefix}{name}.")
        elif kind is SecretStr:
            yield prefix + name


def secret_in_variable(name: str, value: str) -> str:
    """Return the key of the secret that an environment variable holds, alone or in a table of JSON; "" for none."""
    loc = name.removeprefix(PREFIX).lower().split("__")
    for key in secret_keys(Settings):
        parts = key.split(".")
        if parts[: len(loc)] == loc and _holds(value, parts[len(loc) :]):
            return key
    return ""


def _holds(value: str, parts: list[str]) -> bool:
    if not parts:
        return bool(value)
    try:
        return bool(value_at(json.loads(value), parts))
    except ValueError:
        return False


def _refuse_unknown_variables(environ: Mapping[str, str]) -> None:
    """Refuse what pydantic-settings passes over in silence: a misspelt top-level name, which would do nothing."""
    for name in sorted(environ):
        if not name.startswith(PREFIX) or name in NOT_SETTINGS:
            continue
        loc = name.removeprefix(PREFIX).lower().split("__")
        if loc[0] not in Settings.model_fields:
            raise SettingsError(f"{name} is no setting.", _advice(loc, in_file=False))


def store_paths(settings: Settings) -> StorePaths:
    """Return the places of the store that the settings name."""
    from ..store import StorePaths

    return StorePaths(
        vault=settings.vault,
        ledger=settings.data_dir / "ledger.db",
        index=settings.data_dir / "index" / "index.db",
        embeddings=settings.data_dir / "index" / "embeddings.db",
        runs=settings.data_dir / "runs",
    )
