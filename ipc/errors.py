"""The mapping of exceptions to wire errors: a code, a sentence, a hint."""

from __future__ import annotations

import asyncio
import concurrent.futures
import traceback
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args

from loguru import logger
from pydantic import BaseModel, ValidationError

from ..store import is_full, model
from .protocol import (
    BUSY,
    CANCELLED,
    CONFLICT,
    CORRUPT,
    FAILED,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    NOT_FOUND,
    READ_ONLY,
    SCHEMA_TOO_NEW,
    ProtocolError,
)

# Subclasses come before their base, `StoreError`: the first that matches gives the code.
_CODES: tuple[tuple[type[BaseException], int], ...] = (
    (model.NotFound, NOT_FOUND),
    (model.InvalidInput, INVALID_PARAMS),
    (model.StoreBusy, BUSY),
    (model.StoreReadOnly, READ_ONLY),
    (model.SchemaTooNew, SCHEMA_TOO_NEW),
    (model.Corrupt, CORRUPT),
    (model.Conflict, CONFLICT),
    (model.StoreError, FAILED),
)


# Complaints that would speak in Python's words of what a client knows as JSON.
_IN_JSON = {
    **dict.fromkeys(("tuple_type", "list_type", "set_type", "frozen_set_type"), "should be an array"),
    **dict.fromkeys(
        ("dict_type", "mapping_type", "model_type", "model_attributes_type", "dataclass_type"), "should be an object"
    ),
    "string_type": "should be a string",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "should be a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "should be a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "should be true or false"),
    "none_required": "should be null",
}


def wire_error(error: BaseException, method: str) -> ProtocolError:
    """Return the error to answer with. An unforeseen one is logged by place and type: its message may hold a text."""
    if isinstance(error, ProtocolError):
        return error
    for kind, code in _CODES:
        if isinstance(error, kind):
            return ProtocolError(str(error), getattr(error, "hint", ""), code)
    if isinstance(error, asyncio.CancelledError | concurrent.futures.CancelledError):
        return ProtocolError("the request was cancelled", "", CANCELLED)
    # A full disk raises other types from SQLite and from the files, and is no fault of ours.
    if is_full(error):
        return ProtocolError("the disk is full", "make room; dreamd goes on by itself, and nothing is lost", BUSY)
    # The dreamer's errors, in the daemon's room, which this one may not import.
    if isinstance(hint := getattr(error, "hint", None), str):
        return ProtocolError(str(error), hint, getattr(error, "code", FAILED))
    logger.error("{} failed with {} at {}", method, type(error).__name__, _place(error))
    return ProtocolError(
        f"{method} failed inside dreamd with {type(error).__name__}", "the log has the place", INTERNAL_ERROR
    )


def unknown_method(method: str, known: Iterable[str]) -> ProtocolError:
    """Build the error for an unknown method, with the nearest known name."""
    close = get_close_matches(method[:64], list(known), n=1)
    hint = f"did you mean {close[0]}?" if close else "methods: " + ", ".join(sorted([*known, "cancel"]))
    return ProtocolError(f"there is no method {method[:64]!r}", hint, METHOD_NOT_FOUND)


def invalid_params(error: ValidationError, params: type[BaseModel]) -> ProtocolError:
    """Build the error that names the wrong parameters, without their values, which may be private."""
    complaints: list[str] = []
    hints: dict[str, None] = {}
    # Input and context are left out: they would repeat a person's words in the error, and so in a client's log.
    for detail in error.errors(include_url=False, include_input=False, include_context=False)[:5]:
        name = ".".join(str(part)[:64] for part in detail["loc"])
        if detail["type"] == "extra_forbidden":
            hints[_known_at(params, detail["loc"][:-1])] = None
            complaints.append(f"there is no parameter {name!r}")
        elif detail["type"] == "missing":
            complaints.append(f"{name!r} is missing")
        else:
            said = _IN_JSON.get(detail["type"]) or detail["msg"].removeprefix("Value error, ")
            complaints.append((f"{name!r}: " if name else "") + said[:1].lower() + said[1:])
    if len(complaints) > 1 and not hints:
        hints[_known_at(params, ())] = None
    return ProtocolError("; ".join(complaints), "; ".join(hints), INVALID_PARAMS)


def _known_at(params: type[BaseModel], place: Sequence[int | str]) -> str:
    """Name the known parameters at a place in a method's parameters; the places of a list are numbers."""
    model, at = params, [part for part in place if isinstance(part, str)]
    for part in at:
        fields = {field.alias or name: field for name, field in model.model_fields.items()}
        model = next(_models_in(fields[part].annotation), model) if part in fields else model
    names = [field.alias or name for name, field in model.model_fields.items()]
    known = ", ".join(sorted(names, key="user_id".__eq__)) or "none"  # the rarest comes last
    return f"{f'parameters of {at[-1]}' if at else 'parameters'}: {known}"


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models in a type: itself, those of a union, or of the items of a list."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)


def _place(error: BaseException) -> str:
    # The last frames alone: the names of files and functions, never the values of variables.
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    return " < ".join(f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in reversed(frames))
