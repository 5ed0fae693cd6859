"""One request on its way through a frontend: what has been found out about it so far."""

from typing import Protocol

import msgspec

from etagere.auth.identity import Identity, anonymous
from etagere.auth.need import Grant, all_granted
from etagere.frontends.common.message import Request, Response
from etagere.frontends.common.operations import Resource
from etagere.services.common.accounts import Account
from etagere.services.common.service_properties import ServiceProperties, default_properties


class Target(msgspec.Struct, frozen=True):
    """What the path names, decoded: `container` is also a queue, a table or a share."""

    resource: Resource
    container: str = ""
    item: str = ""


class Inner(Protocol):
    """The pipeline, for requests inside a request: a batch's parts, a copy's source."""

    async def handle(self, request: Request) -> Response: ...

    def locate(self, request: Request) -> "Call":
        """Find out what a request names, and nothing else."""
        ...

    async def admit(self, request: Request) -> "Call":
        """Everything up to the handler: the call, authorized; raises Refused."""
        ...


class Call:
    """The context that an operation's handler takes."""

    __slots__ = (
        "account",
        "endpoint",
        "grant",
        "identity",
        "inner",
        "operation_name",
        "properties",
        "request",
        "request_id",
        "secondary",
        "target",
        "version",
    )

    def __init__(
        self,
        request: Request,
        request_id: str,
        account: Account,
        target: Target,
        *,
        secondary: bool,
        endpoint: str,
    ) -> None:
        self.request = request
        self.request_id = request_id
        self.account = account
        self.target = target
        self.secondary = secondary
        self.endpoint = endpoint
        """The service's root for this account as the client named it, ending in a slash."""
        self.version = ""
        """`x-ms-version` in force; "" only for anonymous requests that sent none."""
        self.operation_name = ""
        self.properties: ServiceProperties = default_properties
        self.identity: Identity = anonymous
        self.inner: Inner
        self.grant: Grant = all_granted
        """What the identity may do besides what the operation needs."""

    def header(self, name: str) -> str | None:
        return self.request.headers.get(name)

    def query(self, name: str) -> str | None:
        return self.request.query.get(name)
