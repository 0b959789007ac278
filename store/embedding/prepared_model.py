"""A model's prepared file: made once from a package's weights, known by its hash."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .minilm_graph import integer_model
from .onnx_wire import Array, MalformedModel, Message, read_constants

WEIGHTS = Path(__file__).with_name("weights.npz")
"""The four upper layers, trained on questions and the turns that answer them (`tests/train/fit_embedding.py`)."""

SOURCE_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
PREPARED_SHA256 = "fe21fe311959c4172b359e452327b07a735cf3deec8c6e3895af606d3e75fa8a"
"""Of the package's file, and of what is made of it: the preparation is integers and single float operations, so it
gives the same bytes on every machine. Whoever changes the graph changes this and the model's id."""


class NotPrepared(Exception):
    """The file cannot be prepared: other weights, no space, or a result with another hash."""


@dataclass(frozen=True, slots=True)
class Preparation:
    """The preparation of a package's file: the hashes of source and result, and what builds one from the other."""

    source_sha256: str
    prepared_sha256: str
    build: Callable[[memoryview], Message]


MINILM = Preparation(
    SOURCE_SHA256, PREPARED_SHA256, lambda source: integer_model(read_constants(source) | trained(WEIGHTS))
)


def prepare(source: Path, target: Path, preparation: Preparation = MINILM) -> None:
    """Write the prepared model to `target` unless it is there, whole; two processes at once are safe.

    Takes about .5 s and 60 MiB; a file that is there is read once, to compare its hash. Raises NotPrepared.
    """
    try:
        if not (target.exists() and _sha256_of(target) == preparation.prepared_sha256):
            _write(source.read_bytes(), target, preparation)
    except (OSError, MalformedModel) as problem:
        raise NotPrepared(f"the model could not be prepared ({type(problem).__name__}: {problem})") from problem


def _write(source: bytes, target: Path, preparation: Preparation) -> None:
    if hashlib.sha256(source).hexdigest() != preparation.source_sha256:
        raise NotPrepared("the package holds other weights than those this version knows")
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=target.name, suffix=".tmp", dir=target.parent)
    try:
        digest = hashlib.sha256()
        with os.fdopen(handle, "wb") as file:
            for piece in preparation.build(memoryview(source)).pieces:
                digest.update(piece)
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        if (made := digest.hexdigest()) != preparation.prepared_sha256:
            raise NotPrepared(f"the prepared model has the hash {made}, which this version does not know")
        Path(name).replace(target)
    finally:
        with contextlib.suppress(FileNotFoundError):
            Path(name).unlink()


def trained(path: Path = WEIGHTS) -> dict[str, Array]:
    """Return trained constants, by the names that they have in the package's file. Raises OSError."""
    with np.load(io.BytesIO(path.read_bytes())) as file:
        return {name: file[name] for name in file.files}


def _sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
