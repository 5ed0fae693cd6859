"""What the Queue service brings to the pipeline."""

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
from etagere.frontends.common.xml_errors import xml_error
from etagere.frontends.queue_rest import errors
from etagere.frontends.queue_rest.call import QueueCall
from etagere.frontends.queue_rest.routes import operations
from etagere.services.common.accounts import Account
from etagere.services.common.service_properties import ServiceProperties
from etagere.services.queue import queues
from etagere.services.queue.service import QueueService

_messages_segment: Final = "messages"


class QueueFrontend:
    name = "queue"
    letter = "q"
    server = "Windows-Azure-Queue/1.0 Etagere"
    operations: OperationTable[QueueCall] = operations
    errors: Mapping[str, WireError] = errors.queue

    def __init__(self, service: QueueService) -> None:
        self._queues = service

    def locate(self, address: Address, request: Request) -> Target:
        """`/`, `/queue`, `/queue/messages` or `/queue/messages/id`."""
        queue, _, rest = address.path.partition("/")
        if not queue:
            if rest:
                raise Refused("InvalidUri")
            return Target(Resource.SERVICE)
        queue = decode(queue)
        if not rest:
            return Target(Resource.CONTAINER, queue)
        segment, _, message = rest.partition("/")
        if segment.lower() != _messages_segment:
            raise Refused("InvalidUri")
        # Who deletes with a receipt and an empty id means one message, and not all of them.
        means_one = request.method == "DELETE" and "popreceipt" in request.query
        if not message and not means_one:
            return Target(Resource.MESSAGES, queue)
        return Target(Resource.ITEM, queue, decode(message))

    def call(
        self,
        request: Request,
        request_id: str,
        account: Account,
        target: Target,
        *,
        secondary: bool,
        endpoint: str,
    ) -> QueueCall:
        call = QueueCall(
            request, request_id, account, target, secondary=secondary, endpoint=endpoint
        )
        call.queues = self._queues
        return call

    def properties(self, account: Account) -> Awaitable[ServiceProperties]:
        return self._queues.properties(account.name)

    async def stored_policies(self, call: QueueCall) -> Sequence[StoredPolicy]:
        if not call.target.container:
            return ()
        part = queues.place(call.account.name, call.target.container).part
        try:
            found = await self._queues.read(partial(queues.get_properties, part=part))
        except Refused:
            return ()  # the signature fails, as it does for a policy that is not there
        return found.policies

    async def public_access(self, call: QueueCall) -> PublicAccess:
        """Queues are never open to everybody."""
        del call
        return PublicAccess.NONE

    def refusal(
        self, refused: Refused, error: WireError, call: QueueCall | None
    ) -> tuple[str, bytes]:
        del call
        return "application/xml", xml_error(refused, error)
