"""Entities for azure-servicebus's live tests: made in a running server, one set for each test."""

import functools
import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, ClassVar
from uuid import uuid4

from azure.servicebus.management import AuthorizationRule, ServiceBusAdministrationClient

root_rule = "RootManageSharedAccessKey"
namespace_key = "a-key-that-every-rule-of-the-namespace-has"
namespace_rules = {("Send",): "sends", ("Listen",): "listens"}
entity_key = "RU5USVRZS0VZRU5USVRZS0VZRU5USVRZS0VZRU5USVQ="

SERVICEBUS_ENDPOINT_SUFFIX = ""
"""A namespace's address is its name."""


class AccessRights:
    manage = "Manage"
    send = "Send"
    listen = "Listen"


def connection_string(rule: str = root_rule, key: str = namespace_key, path: str = "") -> str:
    text = f"Endpoint=sb://localhost/;SharedAccessKeyName={rule};SharedAccessKey={key}"
    return f"{text};EntityPath={path}" if path else text


def administration() -> ServiceBusAdministrationClient:
    return ServiceBusAdministrationClient.from_connection_string(connection_string())


def named(name: str | None = None) -> SimpleNamespace:
    name = name or f"e{uuid4().hex[:12]}"
    return SimpleNamespace(name=name, id=name)


class Preparer:
    """A decorator that gives a test what `make` makes."""

    names: ClassVar[tuple[str, ...]] = ()

    def __init__(self, name_prefix: str = "", **options: Any) -> None:
        self.options = options

    def make(self, given: dict[str, Any]) -> dict[str, Any]:
        """By the names of the test's arguments; `given` is what others have made."""
        return {}

    def __call__(self, test: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(test)
        open_ended = any(one.kind is one.VAR_KEYWORD for one in signature.parameters.values())

        def arguments(given: dict[str, Any]) -> dict[str, Any]:
            made = self.make(given)
            wanted = {name for name in made if open_ended or name in signature.parameters}
            return given | {name: made[name] for name in wanted}

        if inspect.iscoroutinefunction(test):

            async def prepared(case: object, **given: Any) -> None:
                await test(case, **arguments(given))
        else:

            def prepared(case: object, **given: Any) -> None:
                test(case, **arguments(given))

        functools.update_wrapper(prepared, test)
        del prepared.__wrapped__  # pytest is to see what is left to give
        left = [
            one
            for name, one in signature.parameters.items()
            if name not in self.names and one.kind is not one.VAR_KEYWORD
        ]
        rest = inspect.Parameter("rest", inspect.Parameter.VAR_KEYWORD)
        prepared.__signature__ = signature.replace(parameters=[*left, rest])
        return prepared


class ServiceBusResourceGroupPreparer(Preparer):
    pass


class ServiceBusNamespacePreparer(Preparer):
    names = (
        "servicebus_namespace",
        "servicebus_namespace_connection_string",
        "servicebus_namespace_key_name",
        "servicebus_namespace_primary_key",
    )

    def make(self, given: dict[str, Any]) -> dict[str, Any]:
        values = (named("localhost"), connection_string(), root_rule, namespace_key)
        return dict(zip(self.names, values, strict=True))


class ServiceBusQueuePreparer(Preparer):
    def __init__(
        self, parameter_name: str = "servicebus_queue", lock_duration: str = "PT30S", **options: Any
    ) -> None:
        for name in ("name_prefix", "use_cache", "random_name_enabled"):
            options.pop(name, None)
        super().__init__(lock_duration=lock_duration, **options)
        self.names = (parameter_name,)

    def make(self, given: dict[str, Any]) -> dict[str, Any]:
        queue = named()
        with administration() as client:
            client.create_queue(queue.name, **self.options)
        return {self.names[0]: queue}


class ServiceBusTopicPreparer(Preparer):
    names = ("servicebus_topic",)

    def make(self, given: dict[str, Any]) -> dict[str, Any]:
        topic = named()
        with administration() as client:
            client.create_topic(topic.name)
        return {"servicebus_topic": topic}


class ServiceBusSubscriptionPreparer(Preparer):
    names = ("servicebus_subscription",)

    def make(self, given: dict[str, Any]) -> dict[str, Any]:
        subscription = named()
        with administration() as client:
            client.create_subscription(
                given["servicebus_topic"].name,
                subscription.name,
                requires_session=self.options.get("requires_session", False),
                lock_duration=self.options.get("lock_duration", "PT60S"),
            )
        return {"servicebus_subscription": subscription}


class ServiceBusNamespaceAuthorizationRulePreparer(Preparer):
    names = (
        "servicebus_authorization_rule",
        "servicebus_authorization_rule_connection_string",
    )

    def make(self, given: dict[str, Any]) -> dict[str, Any]:
        rule = namespace_rules.get(tuple(self.options.get("access_rights", ())), root_rule)
        return dict(zip(self.names, (named(rule), connection_string(rule)), strict=True))


class ServiceBusQueueAuthorizationRulePreparer(Preparer):
    def __init__(
        self,
        parameter_name: str = "servicebus_queue_authorization_rule",
        servicebus_queue_parameter_name: str = "servicebus_queue",
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.names = (parameter_name, f"{parameter_name}_connection_string")
        self._queue = servicebus_queue_parameter_name

    def make(self, given: dict[str, Any]) -> dict[str, Any]:
        path = given[self._queue].name
        rule = AuthorizationRule(
            type="SharedAccessAuthorizationRule",
            claim_type="SharedAccessKey",
            claim_value="None",
            rights=self.options.get("access_rights", ["Manage", "Send", "Listen"]),
            key_name="entityrule",
            primary_key=entity_key,
            secondary_key=entity_key,
        )
        with administration() as client:
            queue = client.get_queue(path)
            queue.authorization_rules = [rule]
            client.update_queue(queue)
        text = connection_string("entityrule", entity_key, path)
        return dict(zip(self.names, (named("entityrule"), text), strict=True))


CachedServiceBusResourceGroupPreparer = ServiceBusResourceGroupPreparer
CachedServiceBusNamespacePreparer = ServiceBusNamespacePreparer
CachedServiceBusQueuePreparer = ServiceBusQueuePreparer
CachedServiceBusTopicPreparer = ServiceBusTopicPreparer
CachedServiceBusSubscriptionPreparer = ServiceBusSubscriptionPreparer
