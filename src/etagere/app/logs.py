"""One line an event on standard error, as text (key=value) or as JSON."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, Final

_standard: Final = frozenset(
    (*logging.makeLogRecord({}).__dict__, "message", "asctime", "taskName")
)


def set_up(level: str, shape: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if shape == "json" else TextLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("etagere").setLevel(level.upper())


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    found: dict[str, Any] = {
        "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
        "level": record.levelname.lower(),
        "logger": record.name,
        "event": record.getMessage(),
    }
    found.update({k: v for k, v in record.__dict__.items() if k not in _standard})
    return found


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:  # type: ignore[explicit-override]  # 3.12
        found = _fields(record)
        if record.exc_info:
            found["traceback"] = self.formatException(record.exc_info)
        return json.dumps(found, default=str, ensure_ascii=False)


class TextLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:  # type: ignore[explicit-override]  # 3.12
        found = _fields(record)
        head = [found.pop("time"), found.pop("level"), found.pop("event")]
        line = " ".join([*head, *[f"{k}={_quoted(v)}" for k, v in found.items() if v != ""]])
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def _quoted(value: Any) -> str:
    text = str(value)
    if text.isprintable() and not any(char in text for char in ' "='):
        return text
    return json.dumps(text, ensure_ascii=False)
