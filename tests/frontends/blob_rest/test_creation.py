"""What a request says of a new blob: the short way, for requests that say little, and the long."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etagere.base.errors import Refused
from etagere.frontends.blob_rest import creation
from etagere.frontends.blob_rest.call import BlobCall
from etagere.frontends.common.message import EmptyBody, Request
from etagere.servers.real import RealClock

telling = {
    "x-ms-blob-content-type": ["text/html", ""],
    "x-ms-blob-content-encoding": ["gzip"],
    "x-ms-blob-content-language": ["fr"],
    "x-ms-blob-content-disposition": ["inline"],
    "x-ms-blob-cache-control": ["no-store"],
    "x-ms-blob-content-md5": ["AAAAAAAAAAAAAAAAAAAAAA==", "short"],
    "content-encoding": ["br"],
    "content-language": ["de"],
    "cache-control": ["max-age=5"],
    "x-ms-meta-colour": ["blue", "\u00e9"],
    "x-ms-tags": ["a=b", "nonsense"],
    "x-ms-access-tier": ["Cool", "Lukewarm"],
    "x-ms-immutability-policy-until-date": ["Fri, 01 Jan 2100 00:00:00 GMT", "soon"],
    "x-ms-immutability-policy-mode": ["Locked"],
    "x-ms-legal-hold": ["true", "perhaps"],
}
silent = {
    "host": ["127.0.0.1"],
    "content-type": ["text/plain", "application/json", ""],
    "content-md5": ["AAAAAAAAAAAAAAAAAAAAAA=="],
    "content-length": ["4"],
    "user-agent": ["test"],
    "x-ms-version": ["2025-05-05"],
    "x-ms-blob-type": ["BlockBlob"],
    "x-ms-lease-id": ["00000000-0000-0000-0000-000000000001"],
    "if-none-match": ["*"],
}


def headers_of(names: dict[str, list[str]]) -> st.SearchStrategy[dict[str, str]]:
    return st.fixed_dictionaries(
        {}, optional={name: st.sampled_from(values) for name, values in names.items()}
    )


def new_blob(headers: dict[str, str], standard: bool) -> Any:
    request = Request(method="PUT", raw_path="/", raw_query="", headers=headers, body=EmptyBody())
    grant = SimpleNamespace(may_overwrite=False, allows=lambda letter: letter == "i")
    call: Any = SimpleNamespace(
        request=request,
        version="2025-05-05",
        grant=grant,
        blobs=SimpleNamespace(clock=RealClock()),
        may_use_tags=lambda: BlobCall.may_use_tags(call),
    )
    try:
        return creation.new_blob(call, standard=standard, seal=None)
    except Refused as refusal:
        return refusal.code


@given(
    headers_of(silent), st.one_of(st.just({}), headers_of(telling)), st.sampled_from([True, False])
)
def test_both_ways_come_to_the_same(
    little: dict[str, str], more: dict[str, str], standard: bool
) -> None:
    headers = {**little, **more}
    found = new_blob(headers, standard)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(creation, "_say_nothing", frozenset())
        assert new_blob(headers, standard) == found


@pytest.mark.parametrize("name", sorted(telling))
def test_what_says_something_is_heard(name: str) -> None:
    assert name not in creation._say_nothing


def test_requests_that_say_little_go_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(creation, "metadata", None)  # the long way would call it
    headers = {name: values[0] for name, values in silent.items()}
    assert new_blob(headers, standard=True).headers.content_type == "text/plain"
