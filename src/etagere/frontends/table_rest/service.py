"""What the Table service brings to the pipeline."""

from collections.abc import Awaitable, Mapping, Sequence
from functools import partial
from typing import Final

from etagere.auth.need import PublicAccess
from etagere.auth.stored_policy import StoredPolicy
from etagere.base.errors import Refused
from etagere.frontends.common.addressing import Address, decode
from etagere.frontends.common.call import Target
from etagere.frontends.common.errors import WireError
from etagere.frontends.common.message import Request
from etagere.frontends.common.operations import OperationTable, Resource
from etagere.frontends.table_rest import errors, media, path
from etagere.frontends.table_rest.call import TableCall, TableTarget
from etagere.frontends.table_rest.path import Kind
from etagere.frontends.table_rest.routes import operations
from etagere.services.common.accounts import Account
from etagere.services.common.service_properties import ServiceProperties
from etagere.services.table import keys
from etagere.services.table.service import TableService
from etagere.services.table.tables import find_table

_resources: Final = {
    Kind.SERVICE: Resource.SERVICE,
    Kind.TABLES: Resource.TABLES,
    Kind.TABLE: Resource.CONTAINER,
    Kind.ENTITIES: Resource.ENTITIES,
    Kind.ENTITY: Resource.ITEM,
    Kind.BATCH: Resource.BATCH,
}


class TableFrontend:
    name = "table"
    letter = "t"
    server = "Windows-Azure-Table/1.0 Etagere"
    operations: OperationTable[TableCall] = operations
    errors: Mapping[str, WireError] = errors.table

    def __init__(self, tables: TableService) -> None:
        self._tables = tables

    def locate(self, address: Address, request: Request) -> Target:
        found = path.parse(decode(address.path))
        # A batch's tables are inside it; a signature for one table says which it is for.
        table = request.query.get("tn", "") if found.kind is Kind.BATCH else found.table
        return TableTarget(_resources[found.kind], table, "", found)

    def call(
        self,
        request: Request,
        request_id: str,
        account: Account,
        target: Target,
        *,
        secondary: bool,
        endpoint: str,
    ) -> TableCall:
        assert isinstance(target, TableTarget)
        call = TableCall(
            request, request_id, account, target, secondary=secondary, endpoint=endpoint
        )
        call.path = target.path
        call.tables = self._tables
        return call

    def properties(self, account: Account) -> Awaitable[ServiceProperties]:
        return self._tables.properties(account.name)

    async def stored_policies(self, call: TableCall) -> Sequence[StoredPolicy]:
        if not call.target.container:
            return ()
        part = keys.table_partition(call.account.name, call.target.container)
        record = await self._tables.read(partial(find_table, part=part))
        return () if record is None else record.policies

    async def public_access(self, call: TableCall) -> PublicAccess:
        del call
        return PublicAccess.NONE

    def refusal(
        self, refused: Refused, error: WireError, call: TableCall | None
    ) -> tuple[str, bytes]:
        if call is not None and "comp" in call.request.query:
            return "application/xml", errors.xml_body(refused.code, error.message)
        accept = None if call is None else call.header("accept")
        level = media.choose_leniently(accept)
        return media.content_types[level], errors.json_body(refused.code, error.message)
