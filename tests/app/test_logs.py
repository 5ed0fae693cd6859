"""One line an event, as text or as JSON."""

import json
import logging
import sys

import pytest

from etagere.app.logs import JsonLines, TextLines


def record(message="request", error=None, **extra):
    info = None if error is None else (type(error), error, error.__traceback__)
    made = logging.LogRecord("etagere.x", logging.INFO, "f.py", 1, message, (), info)
    made.__dict__.update(extra)
    return made


def fail():
    raise ValueError("broken\nin two")


def raised():
    try:
        fail()
    except ValueError as error:
        return error


def test_a_line_of_text():
    line = TextLines().format(record(service="blob", status=201, code="", path='/a "b"\nc'))
    time, rest = line.split(" ", 1)
    assert time.endswith("+00:00")
    assert rest == 'info request logger=etagere.x service=blob status=201 path="/a \\"b\\"\\nc"'


def test_a_line_of_json():
    line = JsonLines().format(record(service="blob", status=201, path='/a "b"\nc'))
    assert "\n" not in line
    found = json.loads(line)
    assert found["event"] == "request"
    assert found["level"] == "info"
    assert (found["service"], found["status"], found["path"]) == ("blob", 201, '/a "b"\nc')


def test_failures_bring_their_traceback():
    found = json.loads(JsonLines().format(record(error=raised())))
    assert "ValueError: broken" in found["traceback"]
    assert "ValueError: broken" in TextLines().format(record(error=raised()))


@pytest.mark.parametrize("shape", [JsonLines, TextLines])
def test_values_of_any_kind_can_be_logged(shape):
    assert shape().format(record(value=object(), raw=b"\xff", none=None))
    assert sys.getsizeof(shape().format(record("%s", value=1))) > 0
