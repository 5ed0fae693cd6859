"""The namespace that the administration tests are given."""

from servicebus_preparer import Preparer, connection_string, namespace_key, root_rule


class ServiceBusPreparer(Preparer):
    def make(self, given: dict[str, object]) -> dict[str, object]:
        return {
            "servicebus_connection_str": connection_string(),
            "servicebus_fully_qualified_namespace": "localhost",
            "servicebus_sas_policy": root_rule,
            "servicebus_sas_key": namespace_key,
        }

    names = (
        "servicebus_connection_str",
        "servicebus_fully_qualified_namespace",
        "servicebus_sas_policy",
        "servicebus_sas_key",
    )
