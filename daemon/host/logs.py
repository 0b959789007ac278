"""Logging by loguru, into which the messages of libraries that use `logging` are forwarded; and spans of OpenTelemetry.

OpenTelemetry is an extra: nothing of it is imported unless the settings ask for it.
"""

from __future__ import annotations

import inspect
import logging
import os
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

from loguru import logger

from ..settings import LogSettings

WITH_TIME = "{time:YYYY-MM-DD HH:mm:ss.SSS} {level: <7} {name}: {message}"
JOURNAL_ADDS_TIME = "{level: <7} {name}: {message}"
CHATTY = ("apscheduler", "httpx", "httpcore", "watchfiles", "asyncio")


def set_up(settings: LogSettings) -> None:
    """Log to stderr, and to a file if one is named.

    `diagnose` stays off: it prints the values of variables, which hold a person's texts.
    """
    logger.remove()
    style = JOURNAL_ADDS_TIME if "JOURNAL_STREAM" in os.environ else WITH_TIME
    logger.add(sys.stderr, level=settings.level, format=style, backtrace=False, diagnose=False)
    if settings.file is not None:
        logger.add(
            settings.file,
            level=settings.level,
            format=WITH_TIME,
            rotation="5 MB",
            retention=3,
            backtrace=False,
            diagnose=False,
        )
    logging.basicConfig(handlers=[_ToLoguru()], level=logging.INFO, force=True)
    for name in CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)


OPERATIONS: Final = {
    **dict.fromkeys(("recall", "context", "brief", "find_strategy", "document_search"), "search_memory"),
    **dict.fromkeys(("remember", "reflect"), "create_memory"),
    **dict.fromkeys(("observe", "import", "learn", "document_put"), "upsert_memory"),
    **dict.fromkeys(("edit", "tag", "link", "feedback", "restore", "undo", "review_decide"), "update_memory"),
    **dict.fromkeys(("forget", "purge", "document_delete"), "delete_memory"),
}
"""The names of OpenTelemetry's GenAI conventions for the operations on a memory, by our methods."""


def memory_spans(store_id: str, provider: Any = None) -> Callable[[str, float, str], None]:
    """Return a function that records an answer as a span: the operation, its time, and the code of its error.

    No text and no id of a memory is in it. Without a provider spans are exported by OTLP, as the `OTEL_…` variables
    say. Raises ImportError without `dreamd[otel]`.
    """
    if provider is None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # pyright: ignore[reportMissingImports]
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        # A name that the variables give wins.
        provider = TracerProvider(
            resource=Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME", "dreamd")})
        )
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    from opentelemetry.trace import SpanKind, Status, StatusCode

    tracer = provider.get_tracer("dreamd")

    def record(method: str, seconds: float, outcome: str) -> None:
        if (operation := OPERATIONS.get(method)) is None:
            return
        ended_ns = time.time_ns()
        attributes = {"gen_ai.operation.name": operation, "gen_ai.memory.store.id": store_id, "dreamd.method": method}
        began_ns = ended_ns - int(seconds * 1e9)
        span = tracer.start_span(operation, kind=SpanKind.INTERNAL, attributes=attributes, start_time=began_ns)
        if outcome != "ok":
            span.set_attribute("error.type", outcome)
            span.set_status(Status(StatusCode.ERROR))
        span.end(ended_ns)

    return record


class _ToLoguru(logging.Handler):
    """Forwards with level and caller, as loguru's documentation shows."""

    def emit(self, record: logging.LogRecord) -> None:
        """Forward one record."""
        try:
            level: str | int = logger.level(record.levelname).name
        except ValueError:
            level = record.levelno
        frame: FrameType | None = inspect.currentframe()
        depth = 0
        while frame is not None and (depth == 0 or frame.f_code.co_filename == logging.__file__):
            frame, depth = frame.f_back, depth + 1
        logger.opt(depth=depth, exception=record.exc_info).log(level, record.getMessage())
