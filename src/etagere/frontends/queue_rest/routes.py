"""The operations of the Queue service, a row each.

Not one of them has an ETag, takes a condition or a lease ('Managing concurrency in the Queue
service'): a message is held by its pop receipt, and everything else by whoever wrote last.
"""

from typing import Final

from etagere.auth import needs
from etagere.frontends.common.operations import Operation, OperationTable, Resource
from etagere.frontends.queue_rest import account, messages, queues
from etagere.frontends.queue_rest.call import QueueCall

_read = ("GET", "HEAD")
_service = Resource.SERVICE
_queue = Resource.CONTAINER
_messages = Resource.MESSAGES
_message = Resource.ITEM

_account_rows: Final[tuple[Operation[QueueCall], ...]] = (
    Operation(
        "GetQueueServiceProperties",
        ("GET",),
        _service,
        account.get_properties,
        needs.service_read,
        restype="service",
        comp="properties",
    ),
    Operation(
        "SetQueueServiceProperties",
        ("PUT",),
        _service,
        account.set_properties,
        needs.service_write,
        restype="service",
        comp="properties",
        writes=True,
    ),
    Operation(
        "GetQueueServiceStats",
        ("GET",),
        _service,
        account.get_stats,
        needs.service_read,
        restype="service",
        comp="stats",
        since="2013-08-15",
    ),
    Operation(
        "GetUserDelegationKey",
        ("POST",),
        _service,
        account.get_user_delegation_key,
        needs.user_delegation_key,
        restype="service",
        comp="userdelegationkey",
        since="2026-02-06",
    ),
    Operation(
        "ListQueues",
        ("GET",),
        _service,
        account.list_queues,
        needs.containers_list,
        comp="list",
    ),
    *(
        Operation(
            "GetAccountInformation",
            _read,
            resource,
            account.get_account_information,
            needs.account_information,
            restype="account",
            comp="properties",
            since="2018-03-28",
        )
        for resource in (_service, _queue, _messages, _message)
    ),
)

_queue_rows: Final[tuple[Operation[QueueCall], ...]] = (
    Operation(
        "CreateQueue",
        ("PUT",),
        _queue,
        queues.create,
        needs.container_create,
        writes=True,
    ),
    Operation(
        "DeleteQueue",
        ("DELETE",),
        _queue,
        queues.delete,
        needs.container_delete,
        writes=True,
    ),
    Operation(
        "GetQueueMetadata",
        _read,
        _queue,
        queues.get_metadata,
        needs.queue_metadata_read,
        comp="metadata",
    ),
    Operation(
        "SetQueueMetadata",
        ("PUT",),
        _queue,
        queues.set_metadata,
        needs.container_write,
        comp="metadata",
        writes=True,
    ),
    Operation(
        "GetQueueAcl",
        _read,
        _queue,
        queues.get_access,
        needs.policies_read,
        comp="acl",
    ),
    Operation(
        "SetQueueAcl",
        ("PUT",),
        _queue,
        queues.set_access,
        needs.policies,
        comp="acl",
        writes=True,
    ),
)

_message_rows: Final[tuple[Operation[QueueCall], ...]] = (
    Operation(
        "PutMessage",
        ("POST",),
        _messages,
        messages.put,
        needs.message_put,
        writes=True,
    ),
    Operation(
        "PeekMessages",
        ("GET",),
        _messages,
        messages.peek,
        needs.message_peek,
        chosen_by_query=("peekonly", "true"),
    ),
    Operation(
        "GetMessages",
        ("GET",),
        _messages,
        messages.get,
        needs.message_get,
        writes=True,
    ),
    Operation(
        "ClearMessages",
        ("DELETE",),
        _messages,
        messages.clear,
        needs.messages_clear,
        writes=True,
    ),
    Operation(
        "UpdateMessage",
        ("PUT",),
        _message,
        messages.update,
        needs.message_update,
        since="2011-08-18",
        writes=True,
    ),
    Operation(
        "DeleteMessage",
        ("DELETE",),
        _message,
        messages.delete,
        needs.message_delete,
        writes=True,
    ),
)

operations: Final[OperationTable[QueueCall]] = OperationTable(
    "queue", (*_account_rows, *_queue_rows, *_message_rows)
)
