"""The keys of issuers: fetched when they are needed, rotated, withdrawn, and never without end."""

import asyncio

import pytest

from etagere.app.bearer import BearerTokens, fetch_again_after, fetch_keys, renew_after
from etagere.auth.bearer import BearerMode
from etagere.auth.request import SignedRequest
from etagere.base.errors import Refused
from etagere.servers.real import RealClock

from .issuer import Issuer

request = SignedRequest(
    method="GET",
    raw_path="/",
    query=(),
    raw_query="",
    headers={},
    account="mine",
    service="b",
    version="2021-08-06",
    secure=True,
    client_ip="127.0.0.1",
)
lifetime = 10 * 3600


@pytest.fixture
def issuer():
    found = Issuer()
    yield found
    found.close()


class Asking:
    """The server's side, at a time that the test says."""

    def __init__(self, issuer: Issuer) -> None:
        self.now = RealClock().now()
        self.issuer = issuer
        self.tokens = BearerTokens(BearerMode.OIDC, (issuer.url,), ())

    def token(self, *arguments, **options) -> str:
        return self.issuer.token(*arguments, exp=self.now // 10_000_000 + lifetime, **options)

    async def takes(self, token: str) -> bool:
        try:
            await self.tokens(token, request, self.now)
        except Refused:
            return False
        finally:
            if self.tokens._renewal is not None:
                await self.tokens._renewal
        return True

    def fetched(self) -> int:
        """How often, since this was last asked."""
        found = sum(path.endswith("/keys") for path in self.issuer.asked)
        self.issuer.asked.clear()
        return found


async def test_a_new_key_is_taken_once_the_issuer_has_it(issuer):
    asking = Asking(issuer)
    assert await asking.takes(asking.token())
    assert asking.fetched() == 1
    issuer.add_key("second")
    assert not await asking.takes(asking.token("second")), "not within the same minute"
    assert asking.fetched() == 0
    asking.now += fetch_again_after
    assert await asking.takes(asking.token("second"))
    assert await asking.takes(asking.token())
    assert asking.fetched() == 1


async def test_a_key_that_was_withdrawn_is_forgotten(issuer):
    asking = Asking(issuer)
    old = asking.token()
    assert await asking.takes(old)
    issuer.keys.clear()
    issuer.add_key("second")
    assert await asking.takes(old), "nobody has asked the issuer again"
    asking.now += renew_after
    assert await asking.takes(old), "whoever comes first does not wait for the answer"
    assert not await asking.takes(old)
    asking.now += fetch_again_after
    assert await asking.takes(asking.token("second"))


async def test_an_issuer_that_is_away_for_a_while_keeps_its_keys(issuer):
    asking = Asking(issuer)
    assert await asking.takes(asking.token())
    issuer.is_away = True
    asking.now += renew_after
    for _ in range(5):
        assert await asking.takes(asking.token())
    assert len(issuer.asked) == 3, "two documents at first, and one that was not there"


async def test_a_token_that_names_no_key(issuer):
    asking = Asking(issuer)
    issuer.add_key("second")
    assert await asking.takes(asking.token("second", anonymous=True))
    assert asking.fetched() == 1


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1.example/", "http://localhost@example/", "ftp://localhost/", "x"]
)
def test_keys_come_over_tls_or_from_this_machine(url):
    with pytest.raises(ValueError, match="is not https"):
        fetch_keys(url)


async def test_an_issuer_without_keys_is_not_asked_by_everybody(issuer):
    asking = Asking(issuer)
    token = asking.token()
    issuer.is_away = True
    found = await asyncio.gather(*(asking.takes(token) for _ in range(20)))
    assert not any(found)
    assert len(issuer.asked) == 1
    issuer.is_away = False
    asking.now += fetch_again_after
    assert await asking.takes(token)
