"""Our embedding model behind loopback HTTP, as OpenAI's, Ollama's and one peer's own protocol ask for it.

Every side thus has the same vectors. It counts the seconds that it embedded, so that a search's own time can be told
from its question's embedding, and what else was asked of it: a peer that wants a language model is noticed.
"""

from __future__ import annotations

import base64
import hashlib
import json
import sqlite3
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

import numpy as np
from dreamd.store import Embedder

from ..in_process import KEPT_VECTORS

KEPT = KEPT_VECTORS.with_name("peers.db")
"""Vectors of texts seen, by model and text: turns are embedded once for all peers and all runs."""


class EmbeddingServer:
    """Serves `embedder` on a free port of 127.0.0.1 for as long as the context lasts."""

    def __init__(self, embedder: Embedder, kept: Path = KEPT) -> None:
        self._embedder = embedder
        self._kept = kept
        self._lock = threading.Lock()
        self.seconds = 0.0
        self.refused: list[str] = []
        self.keeps = True

    def __enter__(self) -> Self:
        self._kept.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(self._kept, timeout=60)) as database, database:
            database.execute("CREATE TABLE IF NOT EXISTS vector (key BLOB PRIMARY KEY, vector BLOB) WITHOUT ROWID")
        handler = type("Handler", (_Handler,), {"server_of": self})
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._http.daemon_threads = True
        threading.Thread(target=self._http.serve_forever, name="embeddings", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    @property
    def url(self) -> str:
        """Where it is, without a path."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    @property
    def model(self) -> str:
        """The model's id."""
        return self._embedder.model_id

    def embed(self, texts: Sequence[str]) -> list[np.ndarray[Any, np.dtype[np.float32]]]:
        """Return the vectors of texts; those of a question are made anew each time."""
        with self._lock:
            began = time.perf_counter()
            if not self.keeps and len(texts) == 1:
                vectors = [self._embedder.embed_query(texts[0])]
            else:
                vectors = self._kept_or_new(texts)
            self.seconds += time.perf_counter() - began
        return vectors

    def _kept_or_new(self, texts: Sequence[str]) -> list[np.ndarray[Any, np.dtype[np.float32]]]:
        keys = [hashlib.sha256(f"{self.model}\0{text}".encode()).digest() for text in texts]
        with closing(sqlite3.connect(self._kept, timeout=60)) as database, database:
            found = {
                key: np.frombuffer(row[0], np.float32)
                for key in dict.fromkeys(keys)
                if (row := database.execute("SELECT vector FROM vector WHERE key = ?", (key,)).fetchone())
            }
            missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
            found.update(zip(missing, self._embedder.embed_passages(list(missing.values())), strict=True))
            database.executemany(
                "INSERT OR IGNORE INTO vector VALUES (?, ?)", ((k, found[k].tobytes()) for k in missing)
            )
        return [found[key] for key in keys]


class _Handler(BaseHTTPRequestHandler):
    """Answers in the protocol that the path names."""

    server_of: EmbeddingServer
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet: apart, each answer would wait for an acknowledgement (40 ms)
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
        match self.path:
            case "/v1/embeddings":
                answer = self._openai(asked)
            case "/api/embed":
                answer = {"model": asked.get("model"), "embeddings": self._lists(asked["input"])}
            case "/embed":
                answer = self._plain(asked)
            case path:
                self.server_of.refused.append(path)
                self._answer(404, {"error": f"nothing but embeddings is served here, not {path}"})
                return
        self._answer(200, answer)

    def _openai(self, asked: dict[str, Any]) -> dict[str, Any]:
        vectors = self.server_of.embed(_texts(asked["input"]))
        packed = asked.get("encoding_format") == "base64"
        data = [
            {
                "object": "embedding",
                "index": index,
                "embedding": base64.b64encode(vector.tobytes()).decode() if packed else vector.tolist(),
            }
            for index, vector in enumerate(vectors)
        ]
        usage = {"prompt_tokens": 0, "total_tokens": 0}
        return {"object": "list", "model": asked.get("model"), "data": data, "usage": usage}

    def _plain(self, asked: dict[str, Any]) -> dict[str, Any]:
        vectors = self._lists(asked["texts"])
        return {"model": self.server_of.model, "dimensions": len(vectors[0]), "vectors": vectors}

    def _lists(self, given: str | list[str]) -> list[list[float]]:
        return [vector.tolist() for vector in self.server_of.embed(_texts(given))]

    def do_GET(self) -> None:
        self.server_of.refused.append(self.path)
        self._answer(404, {"error": "nothing but embeddings is served here"})

    def _answer(self, status: int, answer: dict[str, Any]) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing: what is asked is a person's text."""


def _texts(given: str | list[str]) -> list[str]:
    return [given] if isinstance(given, str) else given
