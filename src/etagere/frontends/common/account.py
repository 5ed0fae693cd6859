"""What services say of an account alike: its properties, how far replication is, its kind."""

from collections.abc import Coroutine
from functools import partial
from typing import Any, Protocol

from etagere.base.clock import Clock
from etagere.base.errors import invalid_query
from etagere.frontends.common import service_properties_xml as properties_xml
from etagere.frontends.common.call import Call
from etagere.frontends.common.message import Response
from etagere.kernel.dates import format_http_date
from etagere.kv.contract import Body, Partition, Tx
from etagere.services.common import service_properties
from etagere.services.common.accounts import Account


class Keeper(Protocol):
    """The service whose store holds its properties."""

    def write(
        self, parts: tuple[Partition, ...], body: Body[Tx, None]
    ) -> Coroutine[Any, Any, None]: ...


async def set_properties(
    call: Call, keeper: Keeper, service: str, elements: frozenset[str]
) -> Response:
    """The last writer wins, element by element."""
    wanted = properties_xml.decode(await call.request.body.read(), elements)
    part = service_properties.partition(service, call.account.name)
    await keeper.write((part,), partial(service_properties.change, part=part, wanted=wanted))
    return Response(202)


def stats(call: Call, clock: Clock) -> bytes:
    """Only the secondary endpoint knows how far replication is; here it is never behind."""
    if not call.secondary:
        raise invalid_query("comp", "stats", "Only the secondary endpoint has service stats.")
    return properties_xml.stats(format_http_date(clock.now()))


def information(account: Account) -> dict[str, str]:
    """The headers of Get Account Information."""
    return {
        "x-ms-sku-name": account.sku,
        "x-ms-account-kind": account.kind,
        "x-ms-is-hns-enabled": "true" if account.hierarchical_namespace else "false",
    }
