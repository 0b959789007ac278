"""A cross-encoder in place of the default ranking: a model that reads question and text together."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..index.catalog import Catalog
from ..model import NodeId
from ..settings import SearchSettings
from .gathering import Candidate, fuse_arms
from .question import Question

logger = logging.getLogger(__name__)

# Characters of a text that it reads: about 400 tokens, of the 512 that such models take.
READ_CHARS = 1_600

# fastembed asks for a name of its list also where a folder holds the model; it then reads the files of that folder.
NAME_OF_A_FOLDER = "Xenova/ms-marco-MiniLM-L-6-v2"


class CrossEncoderReranker:
    """Orders the best candidates of both arms; it takes 10 ms a text and more.

    The candidates keep the fused scores, the best one the highest, since confidences are calibrated on these. Where the
    model cannot be loaded (nothing is downloaded) the fused order stays.
    """

    def __init__(self, settings: SearchSettings, catalog: Catalog) -> None:
        self._settings = settings
        self._catalog = catalog
        self._encoder: Any = None
        self._is_missing = False

    def rerank(self, question: Question, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return all candidates, the first `cross_encoder_reads` of the fused order in the order of the model."""
        known = {one.unit: one for one in candidates}
        fused = fuse_arms(candidates, self._settings.vector_weight)
        head = [name for name, _ in fused[: self._settings.cross_encoder_reads]]
        order = [*self._read(question.text, head), *(name for name, _ in fused[len(head) :])]
        ranked = [known[name] for name in order]
        for candidate, (_, score) in zip(ranked, fused, strict=True):
            candidate.score = score / (1.0 + self._settings.vector_weight)
        return ranked

    def _read(self, question: str, units: Sequence[NodeId]) -> list[NodeId]:
        """Return units in the order of the model, equals as they are given."""
        if self._encoder is None and not self._is_missing:
            self._load(str(self._settings.cross_encoder))
        if self._encoder is None:
            return list(units)
        texts = self._catalog.beginnings(units, READ_CHARS)
        scores = list(self._encoder.rerank(question, [texts.get(name, "") for name in units]))
        order: list[int] = np.argsort(-np.array(scores), kind="stable").tolist()
        return [units[place] for place in order]

    def _load(self, name: str) -> None:
        from fastembed.rerank.cross_encoder import TextCrossEncoder

        folder = Path(name)
        options: dict[str, Any] = {"local_files_only": True}
        if folder.is_dir():
            options = {"specific_model_path": name}
        try:
            self._encoder = TextCrossEncoder(NAME_OF_A_FOLDER if folder.is_dir() else name, threads=1, **options)
        except Exception as error:  # fastembed raises ValueError, the hub's errors and onnxruntime's own
            self._is_missing = True
            logger.warning("the cross-encoder %s cannot be loaded (%s)", name, type(error).__name__)
