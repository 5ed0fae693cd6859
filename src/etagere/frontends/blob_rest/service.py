"""What the Blob service brings to the pipeline."""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Final

from etagere.auth.need import PublicAccess
from etagere.auth.stored_policy import StoredPolicy
from etagere.base.errors import Refused
from etagere.frontends.blob_rest import errors, website
from etagere.frontends.blob_rest.call import BlobCall
from etagere.frontends.blob_rest.names import system_containers
from etagere.frontends.blob_rest.routes import operations
from etagere.frontends.common.addressing import Address, decode
from etagere.frontends.common.call import Target
from etagere.frontends.common.errors import WireError
from etagere.frontends.common.message import Request
from etagere.frontends.common.operations import OperationTable, Resource
from etagere.frontends.common.xml_errors import xml_error
from etagere.kv.contract import ReadTx
from etagere.services.blob.guard import open_container
from etagere.services.blob.records import ContainerRecord
from etagere.services.blob.service import BlobService
from etagere.services.common.accounts import Account
from etagere.services.common.service_properties import ServiceProperties

root_container: Final = "$root"


class BlobFrontend:
    name = "blob"
    letter = "b"
    server = "Windows-Azure-Blob/1.0 Etagere"
    operations: OperationTable[BlobCall] = operations
    errors: Mapping[str, WireError] = errors.blob

    def __init__(self, blobs: BlobService) -> None:
        self._blobs = blobs

    def locate(self, address: Address, request: Request) -> Target:
        """`/`, `/container` or `/container/blob`; one segment may also be a blob in $root."""
        if address.website:
            return Target(Resource.WEBSITE, website.container, decode(address.path))
        raw_container, slash, raw_blob = address.path.partition("/")
        if not raw_container:
            if raw_blob:
                raise Refused("InvalidUri")
            return Target(Resource.SERVICE)
        container = decode(raw_container)
        if slash and raw_blob:
            return Target(Resource.ITEM, container, decode(raw_blob))
        restype = request.query.get("restype")
        if restype is None and not slash and container not in system_containers:
            return Target(Resource.ITEM, root_container, container)
        return Target(Resource.CONTAINER, container)

    def call(
        self,
        request: Request,
        request_id: str,
        account: Account,
        target: Target,
        *,
        secondary: bool,
        endpoint: str,
    ) -> BlobCall:
        call = BlobCall(
            request, request_id, account, target, secondary=secondary, endpoint=endpoint
        )
        call.blobs = self._blobs
        return call

    def properties(self, account: Account) -> Awaitable[ServiceProperties]:
        return self._blobs.properties(account.name)

    async def stored_policies(self, call: BlobCall) -> Sequence[StoredPolicy]:
        record = await self._container(call)
        return () if record is None else record.policies

    async def public_access(self, call: BlobCall) -> PublicAccess:
        if call.target.resource is Resource.WEBSITE:
            return PublicAccess.CONTAINER
        if not call.account.allow_public_access:
            # Azure answers an anonymous request to such an account with a 409 of its own.
            raise Refused("PublicAccessNotPermitted")
        record = await self._container(call)
        return PublicAccess.NONE if record is None else PublicAccess(record.public_access)

    async def _container(self, call: BlobCall) -> ContainerRecord | None:
        if not call.target.container:
            return None
        part = call.part

        async def find(tx: ReadTx) -> ContainerRecord:
            return await open_container(tx, part)

        try:
            return await self._blobs.read(find)
        except Refused:
            return None

    def refusal(
        self, refused: Refused, error: WireError, call: BlobCall | None
    ) -> tuple[str, bytes]:
        del call
        return "application/xml", xml_error(refused, error)
