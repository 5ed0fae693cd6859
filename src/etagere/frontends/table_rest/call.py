"""The context of a Table request, and what every handler reads from it first."""

from functools import lru_cache, partial
from typing import Final

from etagere.base.errors import Refused
from etagere.frontends.common.call import Call, Target
from etagere.frontends.common.errors import WireError
from etagere.frontends.common.errors import common as common_errors
from etagere.frontends.common.message import Request, Response
from etagere.frontends.table_rest import errors, media
from etagere.frontends.table_rest.media import Metadata
from etagere.frontends.table_rest.path import Kind, TablePath
from etagere.kernel.dates import format_iso
from etagere.kv.contract import Partition
from etagere.services.table import keys, tables
from etagere.services.table.names import check_table_name
from etagere.services.table.service import TableService
from etagere.services.table.tables import Place

json_body_bytes_max: Final = 4 * 1024 * 1024
tables_remembered: Final = 1024

reply_headers: Final = {"Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff"}
xml_headers: Final = {"Content-Type": "application/xml", **reply_headers}

_wire: Final[dict[str, WireError]] = {**common_errors, **errors.table}


_service_path: Final = TablePath(Kind.SERVICE)


class TableTarget(Target, frozen=True):
    path: TablePath = _service_path


@lru_cache(maxsize=tables_remembered)
def _part(account: str, table: str) -> Partition:
    check_table_name(table)
    return keys.table_partition(account, table)


class TableCall(Call):
    __slots__ = ("path", "tables")

    path: TablePath
    tables: TableService

    @property
    def part(self) -> Partition:
        """The partition of the table that the path names, once its name was found to be one."""
        return _part(self.account.name, self.path.table)

    def place(self, name: str) -> Place:
        check_table_name(name)
        return tables.place(self.account.name, name)

    def metadata(self) -> Metadata:
        """The level of metadata that the response shall have."""
        return choose_metadata(self.request, self.version)

    async def json_body(self) -> bytes:
        body = await self.request.body.read(json_body_bytes_max)
        media.check_json(self.header("content-type"))
        return body

    async def table_exists(self, name: str) -> bool:
        part = keys.table_partition(self.account.name, name)
        return await self.tables.read(partial(tables.find_table, part=part)) is not None

    def error_body(self, refused: Refused, index: str | None = None) -> tuple[int, bytes]:
        """The status of a refusal, and its JSON."""
        wire = _wire[refused.code]
        now = format_iso(self.tables.clock.now())
        message = refused.message or wire.message
        text = f"{message}\nRequestId:{self.request_id}\nTime:{now}"
        return refused.status or wire.status, errors.json_body(refused.code, text, index)

    def refusal(self, refused: Refused) -> Response:
        """The answer of a data operation that was refused.

        The live service sends no x-ms-error-code with these, only with what its front end refuses
        and with operations whose bodies are XML.
        """
        status, body = self.error_body(refused)
        level = media.choose_leniently(self.header("accept"))
        return Response(
            status,
            {
                **reply_headers,
                **refused.headers,
                "Content-Type": media.content_types[level],
                "DataServiceVersion": "3.0;",
            },
            body,
        )


def choose_metadata(request: Request, version: str) -> Metadata:
    """`$format` counts more than Accept (Azure: 'Setting the OData data service version')."""
    return media.choose(request.query.get("$format") or request.headers.get("accept"), version)


def json_response(status: int, level: Metadata, body: bytes, **headers: str) -> Response:
    return Response(
        status,
        {
            **reply_headers,
            **headers,
            "Content-Type": media.content_types[level],
            "DataServiceVersion": "3.0;",
        },
        body,
    )
