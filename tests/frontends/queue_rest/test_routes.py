"""The rows of the operation table against what the documentation says of queues."""

from etagere.frontends.common.operations import Conditions, LeaseUse
from etagere.frontends.queue_rest.routes import operations

documented = """
GetQueueServiceProperties SetQueueServiceProperties GetQueueServiceStats GetUserDelegationKey
ListQueues GetAccountInformation CreateQueue DeleteQueue GetQueueMetadata SetQueueMetadata
GetQueueAcl SetQueueAcl PutMessage GetMessages PeekMessages DeleteMessage ClearMessages
UpdateMessage
""".split()


def test_every_documented_operation_is_there():
    assert set(operations.names()) == set(documented)


def test_queues_have_no_etags_conditions_or_leases():
    for row in operations.rows:
        assert not row.returns_etag
        assert not row.changes_etag
        assert row.conditions is Conditions.NONE
        assert row.lease is LeaseUse.NONE


def test_what_changes_something_is_not_for_the_secondary():
    for row in operations.rows:
        assert row.need.secondary_ok is not row.writes or row.name == "GetUserDelegationKey"
