"""Who a request comes from: its Authorization header, else its SAS, else nobody.

The cryptography is `auth`'s; here the pieces meet that it needs from elsewhere: the account's keys,
the stored access policies, the clock, and whatever the server trusts bearer tokens by.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from etagere.auth.authorization import BearerToken, KeyCredential, parse_authorization
from etagere.auth.cache import SasCache
from etagere.auth.claims import Claims
from etagere.auth.failure import authentication_failed
from etagere.auth.identity import BearerIdentity, Identity, anonymous
from etagere.auth.request import ResourceName, SignedRequest
from etagere.auth.sas_token import SasKind
from etagere.auth.shared_key import verify as verify_shared_key
from etagere.auth.stored_policy import StoredPolicy, find_policy
from etagere.base.clock import Clock, Timestamp
from etagere.base.errors import Refused
from etagere.frontends.common.call import Call

C = TypeVar("C", bound=Call)
C_contra = TypeVar("C_contra", bound=Call, contravariant=True)

BearerCheck = Callable[[str, SignedRequest, Timestamp], Awaitable[Claims]]
"""Verifies a bearer token as the server is configured to; raises Refused."""


class PolicySource(Protocol[C_contra]):
    """The part of a service that authentication needs."""

    @property
    def letter(self) -> str: ...

    async def stored_policies(self, call: C_contra) -> Sequence[StoredPolicy]: ...


class Authenticator:
    def __init__(self, clock: Clock, bearer: BearerCheck | None) -> None:
        """`bearer` is None where bearer tokens are refused."""
        self._clock = clock
        self._bearer = bearer
        self._tokens = SasCache()

    async def identify(self, call: C, service: PolicySource[C]) -> Identity:
        """The identity that the request proves; raises Refused where the proof is wrong."""
        request = call.request
        authorization = request.headers.get("authorization")
        if authorization is not None:
            return await self._by_header(call, service, authorization)
        if "sig" in request.query:
            return await self._by_token(call, service)
        return anonymous

    def recall(self, call: Call, name: ResourceName) -> Identity | None:
        """What `identify` would find out, where that needs no more than a look: most requests
        bring the token of the one before."""
        request, account = call.request, call.account
        if "authorization" in request.headers or not account.allow_shared_key:
            return None
        return self._tokens.recall(
            request.raw_query, account.name, name, account.keys, self._clock.now(), request
        )

    async def _by_header(self, call: C, service: PolicySource[C], header: str) -> Identity:
        signed = signed_request(call, service.letter)
        match parse_authorization(header):
            case KeyCredential(scheme, account, signature):
                if not call.account.allow_shared_key:
                    raise Refused("KeyBasedAuthenticationNotPermitted")
                return verify_shared_key(
                    signed, scheme, account, signature, call.account.keys, self._clock.now()
                )
            case BearerToken(token):
                if self._bearer is None:
                    raise authentication_failed("Bearer tokens are not accepted by this server.")
                claims = await self._bearer(token, signed, self._clock.now())
                if "sduoid" in call.request.query and "sig" in call.request.query:
                    # A SAS for one user comes with that user's token, and grants what it says;
                    # beside any other SAS the header alone counts.
                    return await self._by_token(call, service, claims)
                return BearerIdentity(claims)

    async def _by_token(
        self, call: C, service: PolicySource[C], bearer: Claims | None = None
    ) -> Identity:
        signed = signed_request(call, service.letter)
        sas = self._tokens.parse(signed)
        if not call.account.allow_shared_key and sas.kind is not SasKind.DELEGATION:
            # What the account's key signed is as good as the key itself.
            raise Refused("KeyBasedAuthenticationNotPermitted")
        policy = None
        if sas.needs_policy:
            policy = find_policy(await service.stored_policies(call), sas.policy_id)
        return self._tokens.verify(
            sas,
            signed,
            resource_name(call, service.letter),
            call.account.keys,
            self._clock.now(),
            policy,
            bearer,
        )


def signed_request(call: Call, letter: str) -> SignedRequest:
    request = call.request
    return SignedRequest(
        method=request.method,
        raw_path=request.raw_path,
        query=request.query_pairs,
        raw_query=request.raw_query,
        headers=request.headers,
        account=call.account.name,
        service=letter,
        version=call.version,
        secure=request.secure,
        client_ip=request.client_ip,
        secondary=call.secondary,
    )


def resource_name(call: Call, letter: str) -> ResourceName:
    query = call.request.query
    target = call.target
    return ResourceName(
        letter,
        target.container,
        target.item,
        query.get("snapshot", ""),
        query.get("versionid", ""),
        call.secondary,
    )
