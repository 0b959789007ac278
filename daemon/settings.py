"""Every setting of the daemon: defaults, then one TOML file, then `DREAMD_…` of the environment."""

from __future__ import annotations

import difflib
import json
import os
import re
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
from . import HintedError

if TYPE_CHECKING:
    from ..store import StorePaths


PREFIX = "DREAMD_"
# Read before, or without, the settings: by this module, the thin client, and agents' hooks.
NOT_SETTINGS = frozenset({"DREAMD_CONFIG", "DREAMD_SOCKET", "DREAMD_NO_HOOKS", "DREAMD_USER"})


class SettingsError(HintedError):
    """Invalid settings. The message names file and key; `hint` says what to write instead."""


class LogSettings(BaseModel, extra="forbid", frozen=True):
    """The log's level, and a rotated file to write to besides stderr."""

    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    file: Path | None = None


class WatchSettings(BaseModel, extra="forbid", frozen=True):
    """The watch on the vault, for edits by hand."""

    enabled: bool = True
    debounce_s: float = Field(0.2, ge=0.02, le=5)


class TranscriptSettings(BaseModel, extra="forbid", frozen=True):
    """The followed sessions: agents by name, as `dreamctl watch --help` lists them, or folders.

    `dreamctl watch` adds others. A session without growth for `quiet_minutes` has ended.
    """

    watch: tuple[str, ...] = ()
    quiet_minutes: float = Field(10, ge=0.1, le=1440)


class HookSettings(BaseModel, extra="forbid", frozen=True):
    """The hooks of agents: with `at_acts`, an edit and a failed command recall what is known of them.

    With `own_files`, the files that programs read by themselves (CLAUDE.md, AGENTS.md) are found by recall.
    """

    at_acts: bool = True
    own_files: bool = True


class TelemetrySettings(BaseModel, extra="forbid", frozen=True):
    """Spans of OpenTelemetry, exported as its own `OTEL_…` variables say; needs `dreamd[otel]`."""

    otel: bool = False


class Settings(BaseSettings):
    """All settings. Use `load`, which turns pydantic's errors into sentences."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_nested_delimiter="__", extra="forbid", frozen=True)

    data_dir: Path = Field(default_factory=lambda: Path(platformdirs.user_data_dir("dreamd", appauthor=False)))
    vault_dir: Path | None = Field(None, description="`vault/` in the data folder, unless it is somewhere else")
    page: bool = Field(True, description="`dreamctl open` may open the web page")
    log: LogSettings = LogSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    watch: WatchSettings = WatchSettings()
    transcripts: TranscriptSettings = TranscriptSettings()
    hooks: HookSettings = HookSettings()
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
    """Read the settings. Raises SettingsError; a missing file is an error only if it was named."""
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


def with_backend(text: str, backend: str) -> str:
    """Return the text of a settings file with another `store.backend`. Raises SettingsError if no line can say it."""
    lines = text.splitlines()
    heads = [number for number, line in enumerate(lines) if line.split("#")[0].strip() == "[store]"]
    said = f'backend = "{backend}"'
    if not heads:
        lines += ["", "[store]", said]
    else:
        begin = heads[0] + 1
        end = next((at for at in range(begin, len(lines)) if lines[at].startswith("[")), len(lines))
        known = [at for at in range(begin, end) if re.match(r"backend\s*=", lines[at])]
        lines[known[0] if known else begin : known[0] + 1 if known else begin] = [said]
    written = "\n".join(lines).lstrip("\n") + "\n"
    wanted = tomllib.loads(text)
    wanted["store"] = wanted.get("store", {}) | {"backend": backend}
    try:
        if tomllib.loads(written) == wanted:
            return written
    except tomllib.TOMLDecodeError:
        pass
    raise SettingsError("the settings file cannot be changed by a line", f"Set it yourself: [store] {said}")


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
    """Make the paths absolute, so that no later change of the working directory moves them."""
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
    """Describe the first error in a sentence, with a count of the others. Values are not repeated."""
    problems = error.errors(include_url=False, include_input=False)
    first = problems[0]
    loc = [str(part) for part in first["loc"] if isinstance(part, str)]  # of a list, the list itself
    in_file = value_at(values, loc) is not None
    place = f"{file}: {'.'.join(loc)}" if in_file else _variable_in_use(_variable(".".join(loc)))
    more = f" ({len(problems) - 1} more)" if len(problems) > 1 else ""
    # A known key with a wrong value; an unknown key gets the nearest known one as a hint.
    if first["type"] != "extra_forbidden":
        problem = "it has too few values" if first["type"] == "missing" else first["msg"].lower()
        return SettingsError(f"{place}: {problem}{more}.", "Mend it or leave it out for the default.")
    return SettingsError(f"{place} is no setting{more}.", _advice(loc, in_file=in_file))


def value_at(values: Any, loc: list[str]) -> Any:
    """Return the value at a path of keys in nested tables, None without one."""
    for part in loc:
        if not isinstance(values, Mapping) or part not in values:
            return None
        values = values[part]
    return values


def _advice(loc: list[str], *, in_file: bool) -> str:
    """Return a hint with the most similar known key, by the whole key, else by its last part."""
    known = list(known_keys(Settings))
    near = difflib.get_close_matches(".".join(loc), known, n=1, cutoff=0.6)
    if not near:
        by_leaf = {key.rpartition(".")[2]: key for key in known}
        near = [by_leaf[leaf] for leaf in difflib.get_close_matches(loc[-1], by_leaf, n=1, cutoff=0.7)]
    if not near:
        return "Leave it out."
    return f"Did you mean {near[0] if in_file else _variable(near[0])}?"


def _variable_in_use(variable: str) -> str:
    """Return the variable in the environment that begins with this name, else the name."""
    return next((name for name in sorted(os.environ) if name.upper().startswith(variable)), variable)


def _variable(key: str) -> str:
    return PREFIX + key.replace(".", "__").upper()


def known_keys(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Yield every dotted key."""
    return (key for key, _ in _fields(model, prefix))


def secret_keys(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Yield every dotted key of a secret."""
    return (key for key, kind in _fields(model, prefix) if kind is SecretStr)


def _fields(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, Any]]:
    """Yield the dotted key and the type of every field, those of nested tables after their table."""
    for name, info in model.model_fields.items():
        yield prefix + name, info.annotation
        if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel):
            yield from _fields(info.annotation, f"{prefix}{name}.")


def secret_in_variable(name: str, value: str) -> str:
    """Return the key of the secret in an environment variable, alone or in a table of JSON; "" without one."""
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
    """Raise SettingsError for an unknown top-level name, which pydantic-settings would ignore."""
    for name in sorted(environ):
        if not name.startswith(PREFIX) or name in NOT_SETTINGS:
            continue
        loc = name.removeprefix(PREFIX).lower().split("__")
        if loc[0] not in Settings.model_fields:
            raise SettingsError(f"{name} is no setting.", _advice(loc, in_file=False))


def store_paths(settings: Settings) -> StorePaths:
    """Return the store's paths."""
    from ..store import StorePaths

    return StorePaths(
        vault=settings.vault,
        ledger=settings.data_dir / "ledger.db",
        index=settings.data_dir / "index" / "index.db",
        embeddings=settings.data_dir / "index" / "embeddings.db",
        runs=settings.data_dir / "runs",
    )
