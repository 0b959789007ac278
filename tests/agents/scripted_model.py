"""A language model that follows a script, for real agent programs, on loopback; it keeps every request.

It speaks Anthropic's Messages, OpenAI's Responses and Chat Completions, and Gemini's generateContent, streaming or not.
A prompt that ends with `CALL tool {json}` makes it call that tool, if it is offered; a tool's result is told back; to
anything else it says so.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

CALL = re.compile(r"CALL (\S+) (\{.*?\})")
ANSWER = "Noted."
RESULT = "RESULT WAS: "

Tool = str | tuple[str, str]
Call = tuple[Tool, dict[str, Any]]


class ScriptedModel:
    """A server in threads of its own, inside a `with`."""

    def __init__(self) -> None:
        model = self

        class Handler(_Handler):
            script = model

        self.requests: list[dict[str, Any]] = []
        self.on_prompt: dict[str, Callable[[], None]] = {}
        """Acts by what a prompt says: each is done once, before that request is answered."""
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        """The address of the server, without a path."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def keep(self, body: dict[str, Any]) -> int:
        """Keep a request; return its number."""
        with self._lock:
            self.requests.append(body)
            number = len(self.requests)
            said = "\n".join(strings_of(body)) if self.on_prompt else ""
            acts = [self.on_prompt.pop(words) for words in list(self.on_prompt) if words in said]
            for act in acts:
                act()
        return number

    def texts(self) -> list[str]:
        """Return each request that was made to the model as one text, with its own escapes undone."""
        return ["\n".join(strings_of(body)) for body in self.requests]


def strings_of(value: Any) -> Iterator[str]:
    """Yield every text in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from strings_of(one)
    elif isinstance(value, list):
        for one in value:
            yield from strings_of(one)


def example_of(schema: dict[str, Any]) -> Any:
    """Return a small value that a JSON schema takes: without one Gemini CLI asks again for minutes."""
    match schema.get("type"):
        case "object":
            return {name: example_of(inner) for name, inner in schema.get("properties", {}).items()}
        case "array":
            return []
        case "number" | "integer":
            return 1
        case "boolean":
            return False
    return schema.get("enum", [ANSWER])[0]


def decide(prompt: str, result: str | None, tools: list[Tool]) -> tuple[Call | None, str]:
    """Return the call that the script asks for, or the words."""
    if result is not None:
        return None, RESULT + result[:2000]
    for wanted, arguments in CALL.findall(prompt.replace('\\"', '"')):  # opencode quotes what it was given
        for tool in tools:
            if tool == wanted or (isinstance(tool, tuple) and ".".join(tool) == wanted):
                return (tool, json.loads(arguments)), ""
    return None, ANSWER


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    script: ScriptedModel

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        self._send("application/json", b"")

    def do_GET(self) -> None:
        self._json({"object": "list", "data": [], "models": [], "has_more": False})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        path = self.path.partition("?")[0]
        try:
            body = json.loads(raw)
        except ValueError:
            return self._json({})
        if "count_tokens" in path:
            return self._json({"input_tokens": 100})
        if path.endswith("/responses"):
            return self._responses(body, self.script.keep(body))
        if path.endswith("/chat/completions"):
            return self._chat(body, self.script.keep(body))
        if path.endswith("/messages"):
            return self._messages(body, self.script.keep(body))
        if "enerateContent" in path:
            return self._gemini(body, self.script.keep(body), stream="stream" in path)
        return self._json({})

    # ---- the four manners

    def _messages(self, body: dict[str, Any], number: int) -> None:
        """Answer as Anthropic's Messages do: what came after the last answer is the prompt."""
        content: list[dict[str, Any]] = []
        for message in reversed(body.get("messages", [])):
            if message.get("role") == "assistant":
                break
            if message.get("role") == "user":
                said = message.get("content", "")
                content = ([{"type": "text", "text": said}] if isinstance(said, str) else said) + content
        results = [block.get("content") for block in content if block.get("type") == "tool_result"]
        result = None if not results else "\n".join(strings_of(results[0]))
        prompt = "\n".join(block["text"] for block in content if block.get("type") == "text")
        call, text = decide(prompt, result, [tool.get("name", "") for tool in body.get("tools", [])])
        block: dict[str, Any] = {"type": "text", "text": text}
        if call is not None:
            block = {"type": "tool_use", "id": f"toolu_{number:06}", "name": call[0], "input": call[1]}
        stop = "tool_use" if call else "end_turn"
        usage = {
            "input_tokens": 10, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 5,
        }  # fmt: skip
        message = {
            "id": f"msg_{number:06}", "type": "message", "role": "assistant", "model": body.get("model", "x"),
            "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage,
        }  # fmt: skip
        if not body.get("stream"):
            return self._json(message | {"content": [block], "stop_reason": stop})
        delta: dict[str, Any] = {"type": "text_delta", "text": text}
        opened: dict[str, Any] = {"type": "text", "text": ""}
        if call is not None:
            delta = {"type": "input_json_delta", "partial_json": json.dumps(call[1])}
            opened = {**block, "input": {}}
        return self._events(
            [
                {"type": "message_start", "message": message},
                {"type": "content_block_start", "index": 0, "content_block": opened},
                {"type": "content_block_delta", "index": 0, "delta": delta},
                {"type": "content_block_stop", "index": 0},
                {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage},
                {"type": "message_stop"},
            ]
        )

    def _responses(self, body: dict[str, Any], number: int) -> None:
        prompt, result = "", None
        for one in body.get("input", []):
            if one.get("type", "message") == "message" and one.get("role") == "user":
                prompt, result = "\n".join(strings_of(one["content"])), None
            if one.get("type") in ("function_call_output", "custom_tool_call_output"):
                result = "\n".join(strings_of(one.get("output")))
        tools: list[Tool] = []
        for tool in body.get("tools", []):
            if tool.get("type") == "namespace":
                tools += [(tool["name"], inner["name"]) for inner in tool.get("tools", [])]
            elif tool.get("name"):
                tools.append(tool["name"])
        call, text = decide(prompt, result, tools)
        item: dict[str, Any] = {
            "type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}],
        }  # fmt: skip
        if call is not None:
            named = call[0] if isinstance(call[0], str) else call[0][1]
            space = {} if isinstance(call[0], str) else {"namespace": call[0][0]}
            arguments = json.dumps(call[1])
            ids = {"id": f"fc_{number}", "call_id": f"call_{number}"}
            item = {"type": "function_call", **ids, "name": named, "arguments": arguments, **space}
        usage = {
            "input_tokens": 10, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 15,
        }  # fmt: skip
        whole = {"id": f"resp_{number}", "object": "response"}
        self._events(
            [
                {"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}},
                {"type": "response.output_item.added", "output_index": 0, "item": item},
                {"type": "response.output_item.done", "output_index": 0, "item": item},
                {
                    "type": "response.completed",
                    "response": {**whole, "status": "completed", "output": [item], "usage": usage},
                },
            ]
        )

    def _chat(self, body: dict[str, Any], number: int) -> None:
        prompt, result = "", None
        for message in body.get("messages", []):
            said = "\n".join(strings_of(message.get("content")))
            if message["role"] == "user":
                # A program may say more in its person's role, also behind a tool's answer.
                prompt = f"{prompt}\n{said}"
            elif message["role"] == "tool":
                result = said
            elif message["role"] == "assistant":
                prompt, result = "", None
        call, text = decide(prompt, result, [tool["function"]["name"] for tool in body.get("tools", [])])
        message = {"role": "assistant", "content": text}
        if call is not None:
            function = {"name": call[0], "arguments": json.dumps(call[1])}
            asked = [{"index": 0, "id": f"call_{number}", "type": "function", "function": function}]
            message = {"role": "assistant", "content": None, "tool_calls": asked}
        finish = "tool_calls" if call else "stop"
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        whole = {"id": f"c{number}", "created": 1, "model": body.get("model")}
        if not body.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": finish}
            return self._json({**whole, "object": "chat.completion", "choices": [choice], "usage": usage})
        chunk = {**whole, "object": "chat.completion.chunk"}
        events = [
            {**chunk, "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
            {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
            {**chunk, "choices": [], "usage": usage},
        ]
        lines = [f"data: {json.dumps(event)}\n\n" for event in events]
        return self._send("text/event-stream", "".join([*lines, "data: [DONE]\n\n"]).encode())

    def _gemini(self, body: dict[str, Any], number: int, *, stream: bool) -> None:
        prompt, result = "", None
        for content in body.get("contents", []):
            for part in content.get("parts", []):
                if content.get("role") == "user" and "text" in part:
                    prompt += f"\n{part['text']}"
                if "functionResponse" in part:
                    result = "\n".join(strings_of(part["functionResponse"].get("response")))
        tools: list[Tool] = [
            function["name"] for tool in body.get("tools", []) for function in tool.get("functionDeclarations", [])
        ]
        call, text = decide(prompt, result, tools)
        wanted = body.get("generationConfig", {})
        if wanted.get("responseMimeType") == "application/json":
            schema = wanted.get("responseJsonSchema") or wanted.get("responseSchema") or {}
            call, text = None, json.dumps(example_of(schema))
        part = {"functionCall": {"name": call[0], "args": call[1]}} if call else {"text": text}
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
        answer = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": f"scripted-{number}"}
        if not stream:
            return self._json(answer)
        return self._send("text/event-stream", f"data: {json.dumps(answer)}\r\n\r\n".encode())

    # ---- what goes out

    def _events(self, events: list[dict[str, Any]]) -> None:
        lines = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]
        self._send("text/event-stream", "".join(lines).encode())

    def _json(self, value: dict[str, Any]) -> None:
        self._send("application/json", json.dumps(value).encode())

    def _send(self, kind: str, content: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.send_header("request-id", "req_scripted")
        self.end_headers()
        self.wfile.write(content)
