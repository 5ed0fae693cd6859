"""Who is let in by which words in the Authorization header."""

import pytest

from etagere.auth.bus_sas import manage
from etagere.base.errors import Refused
from etagere.frontends.bus_admin.access import Access
from etagere.frontends.common.message import EmptyBody, Request
from etagere.servers.real import RealClock

token = "eyJhbGciOiJSUzI1NiJ9.eyJhdWQiOiJzYiJ9.c2ln-_"


def asking(authorization: str) -> Request:
    return Request(
        method="GET",
        raw_path="/queue",
        raw_query="",
        headers={"host": "localhost", "authorization": authorization},
        body=EmptyBody(),
    )


@pytest.mark.parametrize("said", [f"Bearer {token}", f"bearer {token}", token, "a.b."])
def test_bearer_tokens_are_believed_where_they_are_not_checked(said: str) -> None:
    """Go's administration client sends one without a word in front."""
    Access(lambda *_: None, RealClock(), trust_bearer=True).require(asking(said), manage)
    with pytest.raises(Refused) as refused:
        Access(lambda *_: None, RealClock()).require(asking(said), manage)
    assert refused.value.code == "InvalidIssuer"


@pytest.mark.parametrize("said", ["", "Bearer", "Basic YTpi", "a.b", "a.b.c.d", "a b.c.d", "x"])
def test_nothing_else_is(said: str) -> None:
    with pytest.raises(Refused):
        Access(lambda *_: None, RealClock(), trust_bearer=True).require(asking(said), manage)
