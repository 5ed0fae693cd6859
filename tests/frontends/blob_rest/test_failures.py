"""What clients are told, and what the log says, where the store fails under a request."""

import logging

import pytest

from etagere.extents.contract import ExtentGone, ExtentId
from etagere.kv.contract import LimitExceeded, StoreClosed, StoreFailed, StoreFull

gone = ExtentGone("the extent has been given up", ExtentId(bytes(16)))


@pytest.mark.parametrize(
    ("error", "status", "code", "level"),
    [
        (StoreFull("no room"), 507, "InsufficientStorage", logging.WARNING),
        (StoreClosed(), 503, "ServerBusy", logging.WARNING),
        (gone, 503, "ServerBusy", logging.WARNING),
        (LimitExceeded("too much at once"), 413, "RequestBodyTooLarge", None),
        (StoreFailed("the disk is gone"), 500, "InternalError", logging.ERROR),
        (ZeroDivisionError(), 500, "InternalError", logging.ERROR),
    ],
)
def test_a_failure_is_an_answer_and_a_line(
    server, raw, monkeypatch, caplog, error, status, code, level
):
    write = server.engine.write

    async def failing(parts, body):
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(server.engine, "write", failing)
        reply = raw("PUT", "/container", restype="container")
    assert (reply.status, reply.code) == (status, code)
    lines = [record for record in caplog.records if record.name.startswith("etagere.frontends")]
    assert [line.levelno for line in lines] == ([] if level is None else [level])
    for line in lines:
        # A traceback is for what nobody foresaw; a full disk would fill the log with them.
        assert bool(line.exc_info) == (level == logging.ERROR)
    assert server.engine.write == write
    assert raw("PUT", "/container", restype="container").status == 201
