"""The administration of a namespace over HTTP (Service Bus REST, 'Entities' and 'Rules').

Paths are split before they are decoded: one SDK sends the slash inside a name encoded, others do
not.  `Subscriptions`, `Rules` and the words that begin with `$` may be written in any case.
"""

import base64
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from etagere.auth.bus_sas import manage
from etagere.base.clock import Clock, Timestamp
from etagere.base.entropy import Entropy
from etagere.base.errors import Refused
from etagere.frontends.bus_admin import atom, descriptions_xml, rules_xml
from etagere.frontends.bus_admin.access import Access
from etagere.frontends.bus_admin.atom import Entry, Wrapper
from etagere.frontends.bus_admin.descriptions_xml import Context
from etagere.frontends.bus_admin.errors import Speaker, bad_request, method_not_allowed
from etagere.frontends.common.addressing import decode
from etagere.frontends.common.message import Request, Response
from etagere.frontends.common.xml import Node
from etagere.kernel.dates import format_iso
from etagere.services.bus import errors, names
from etagere.services.bus.administration import EntityInfo
from etagere.services.bus.broker import Broker, EntityKind
from etagere.services.bus.descriptions import (
    QueueDescription,
    SubscriptionDescription,
    Tier,
    TopicDescription,
    message_bytes_max,
)
from etagere.services.bus.rules import RuleDescription

versions: Final = ("2017-04", "2021-05", "2024-05")
page_default: Final = 100
page_max: Final = 100
_nothing_listed: Final = "Publicly Listed Services"
_key_bytes: Final = 32
_forwarding_tokens: Final = (
    ("forward_to", "servicebussupplementaryauthorization"),
    ("forward_dead_lettered_to", "servicebusdlqsupplementaryauthorization"),
)
"""Headers with which clients show that they may have messages forwarded to another entity."""


class Place(NamedTuple):
    """What a path names; the empty text stands for what it does not name."""

    entity: str = ""
    subscription: str = ""
    rule: str = ""
    listing: str = ""
    """queues, topics, Subscriptions, Rules or $namespaceinfo"""

    @property
    def path(self) -> str:
        parts = [self.entity]
        if self.subscription:
            parts += ["Subscriptions", self.subscription]
        if self.rule:
            parts += ["Rules", self.rule]
        return "/".join(parts)


def locate(raw_path: str) -> Place:
    """Raises for paths that name nothing."""
    parts = [decode(part) for part in raw_path.split("/")]
    if len(parts) < 2:  # `OPTIONS *` and its like
        raise Refused(bad_request, message="The path names no entity.")
    parts = parts[1:]
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    folded = [part.casefold() for part in parts]
    if folded[0] == "$resources" and len(parts) == 2 and folded[1] in ("queues", "topics"):
        return Place(listing=folded[1])
    if folded == ["$namespaceinfo"]:
        return Place(listing="$namespaceinfo")
    if "subscriptions" not in folded:
        return Place(entity="/".join(parts))
    at = len(folded) - 1 - folded[::-1].index("subscriptions")
    entity, rest = "/".join(parts[:at]), parts[at + 1 :]
    match rest:
        case []:
            return Place(entity, listing="Subscriptions")
        case [subscription]:
            return Place(entity, subscription)
        case [subscription, word] if word.casefold() == "rules":
            return Place(entity, subscription, listing="Rules")
        case [subscription, word, rule] if word.casefold() == "rules":
            return Place(entity, subscription, rule)
        case _:
            raise Refused(bad_request, message="The path names no entity.")


_lacking: Final = {
    "GET": "Manage,EntityRead claims required for this operation.",
    "PUT": "Authorization failed for specified action: Manage,EntityWrite.",
    "DELETE": "Authorization failed for specified action: Manage,EntityDelete.",
}
"""In the words of the service, which clients look for (azservicebus,
`TestAdminClient_LackPermissions_Queue`)."""


class BusAdmin:
    """Handles the requests of one namespace."""

    def __init__(self, broker: Broker, access: Access, clock: Clock, entropy: Entropy) -> None:
        self._broker = broker
        self._access = access
        self._clock = clock
        self._entropy = entropy
        self._speaker = Speaker(clock, entropy)

    async def handle(self, request: Request) -> Response:
        return await self._speaker.reply(request, self._perform)

    async def _perform(self, request: Request) -> Response:
        place = locate(request.raw_path)
        self._access.require(request, manage, _lacking.get(request.method, ""))
        if place.listing:
            if request.method != "GET":
                raise Refused(method_not_allowed)
            return self._list(request, place)
        handlers: dict[str, Callable[[Request, Place], Awaitable[Response]]] = {
            "GET": self._get,
            "PUT": self._put,
            "DELETE": self._delete,
        }
        handler = handlers.get(request.method)
        if handler is None:
            raise Refused(method_not_allowed)
        return await handler(request, place)

    # ---- reading

    def _wrapper(self, request: Request) -> Wrapper:
        scheme = "https" if request.secure else "http"
        asked = request.query.get("api-version", "")
        version = asked if asked in versions else versions[-1]
        return Wrapper(f"{scheme}://{request.host}/", version, self._broker.namespace)

    def _entry_of(self, info: EntityInfo, wrapper: Wrapper) -> Entry:
        description = info.description
        kilobytes = message_bytes_max(description, self._broker.tier) // 1024
        content = descriptions_xml.encode(
            Context(info, wrapper.base, wrapper.version, kilobytes, self._broker.tier)
        )
        path = info.path
        if isinstance(description, SubscriptionDescription):
            topic, _, _ = path.rpartition("/")
            path = f"{topic.rpartition('/')[0]}/Subscriptions/{description.name}"
        return Entry(path, description.name, info.created_at, info.updated_at, content)

    def _rule_entry(self, rule: RuleDescription, place: Place) -> Entry:
        created = Timestamp(rule.created_at)
        path = Place(place.entity, place.subscription, rule.name).path
        return Entry(path, rule.name, created, created, rules_xml.encode(rule))

    async def _get(self, request: Request, place: Place) -> Response:
        wrapper = self._wrapper(request)
        if place.rule:
            folded = place.rule.casefold()
            for rule in self._broker.administration.rules(place.entity, place.subscription):
                if rule.name.casefold() == folded:
                    return wrapper.entry(self._rule_entry(rule, place))
            return self._empty(wrapper, place)
        if place.subscription:
            self._broker.administration.get(place.entity)
        try:
            info = self._broker.administration.get(place.path)
        except Refused as refused:
            if refused.code != errors.not_found:
                raise
            return self._empty(wrapper, place)
        return wrapper.entry(self._entry_of(info, wrapper))

    def _empty(self, wrapper: Wrapper, place: Place) -> Response:
        """What is not there under a parent that is: a feed without entries, which all SDKs know."""
        return wrapper.feed(_nothing_listed, place.path, (), self._clock.now())

    def _list(self, request: Request, place: Place) -> Response:
        wrapper, now = self._wrapper(request), self._clock.now()
        if place.listing == "$namespaceinfo":
            return wrapper.entry(self._namespace(now))
        skip = _number(request, "$skip", 0)
        top = min(_number(request, "$top", page_default), page_max)
        entries, path = self._page(wrapper, place, skip, top + 1)
        following = f"&$skip={skip + top}&$top={top}" if len(entries) > top else ""
        title = place.listing.capitalize()
        return wrapper.feed(title, path, entries[:top], now, following)

    def _page(self, wrapper: Wrapper, place: Place, skip: int, top: int) -> tuple[list[Entry], str]:
        administration = self._broker.administration
        if place.listing == "Rules":
            rules = administration.rules(place.entity, place.subscription)[skip : skip + top]
            return [self._rule_entry(rule, place) for rule in rules], f"{place.path}/Rules"
        if place.listing == "Subscriptions":
            found = administration.list_subscriptions(place.entity, skip=skip, top=top)
            path = f"{place.entity}/Subscriptions"
        else:
            kind = EntityKind.queue if place.listing == "queues" else EntityKind.topic
            found = administration.list_entities(kind, skip=skip, top=top)
            path = f"$Resources/{place.listing}"
        return [self._entry_of(info, wrapper) for info in found], path

    def _namespace(self, now: Timestamp) -> Entry:
        name, tier = self._broker.namespace, self._broker.tier
        units = "<MessagingUnits>1</MessagingUnits>" if tier is Tier.premium else ""
        moment = format_iso(now)
        content = (
            f'<NamespaceInfo xmlns="{descriptions_xml.namespace}"'
            f' xmlns:i="{descriptions_xml.instance_namespace}">'
            f"<CreatedTime>{moment}</CreatedTime><MessagingSKU>{tier.value}</MessagingSKU>{units}"
            f"<ModifiedTime>{moment}</ModifiedTime><Name>{name}</Name>"
            "<NamespaceType>Messaging</NamespaceType></NamespaceInfo>"
        )
        return Entry("$namespaceinfo", name, now, now, content)

    # ---- writing

    async def _put(self, request: Request, place: Place) -> Response:
        node = atom.content_of(await request.body.read())
        update = "if-match" in request.headers
        wrapper = self._wrapper(request)
        if place.rule:
            rule = await self._put_rule(place, node, update=update)
            return wrapper.entry(self._rule_entry(rule, place), 200 if update else 201)
        if place.subscription:
            info = await self._put_subscription(request, place, node, update=update)
        else:
            info = await self._put_entity(request, place, node, wrapper.version, update=update)
        return wrapper.entry(self._entry_of(info, wrapper), 200 if update else 201)

    async def _put_rule(self, place: Place, node: Node, *, update: bool) -> RuleDescription:
        _must_be(node, "RuleDescription")
        rule = rules_xml.decode(node, place.rule)
        administration = self._broker.administration
        change = administration.update_rule if update else administration.add_rule
        return await change(place.entity, place.subscription, rule)

    def _check_forwarding(
        self, request: Request, description: QueueDescription | SubscriptionDescription
    ) -> None:
        """Whoever chains entities manages both; a client that shows no second token is believed."""
        for field, header in _forwarding_tokens:
            target, token = getattr(description, field), request.headers.get(header)
            if target is not None and token is not None:
                self._access.require_beside(token, names.entity_path_of(target), manage)

    async def _put_subscription(
        self, request: Request, place: Place, node: Node, *, update: bool
    ) -> EntityInfo:
        _must_be(node, "SubscriptionDescription")
        description = descriptions_xml.decode(
            node,
            SubscriptionDescription,
            place.subscription,
            self._new_key,
            self._clock.now(),
        )
        self._check_forwarding(request, description)
        administration = self._broker.administration
        if update:
            return await administration.update_subscription(place.entity, description)
        given = node.child("DefaultRuleDescription")
        if given is None:
            return await administration.create_subscription(place.entity, description)
        rule = rules_xml.decode(given, "")
        return await administration.create_subscription(place.entity, description, rule)

    async def _put_entity(
        self, request: Request, place: Place, node: Node, version: str, *, update: bool
    ) -> EntityInfo:
        now = self._clock.now()
        # The first version of the interface has not heard of it.  A namespace that is not premium
        # refuses it all the same (azure-servicebus, `test_mgmt_queue_basic_v2017_04`).
        premium = self._broker.tier is Tier.premium
        large = version >= descriptions_xml.large_messages_since or not premium
        administration = self._broker.administration
        change = administration.update if update else administration.create
        if node.name == "QueueDescription":
            queue = descriptions_xml.decode(
                node, QueueDescription, place.entity, self._new_key, now, large=large
            )
            self._check_forwarding(request, queue)
            return await change(queue)
        _must_be(node, "TopicDescription")
        topic = descriptions_xml.decode(
            node, TopicDescription, place.entity, self._new_key, now, large=large
        )
        return await change(topic)

    async def _delete(self, _request: Request, place: Place) -> Response:
        administration = self._broker.administration
        if place.rule:
            await administration.remove_rule(place.entity, place.subscription, place.rule)
        else:
            await administration.delete(place.path)
        return Response(200)

    def _new_key(self) -> str:
        return base64.b64encode(self._entropy.token(_key_bytes)).decode()


def _must_be(node: Node, name: str) -> None:
    if node.name != name:
        raise Refused(bad_request, message=f"A {node.name} is not what this path describes.")


def _number(request: Request, name: str, default: int) -> int:
    text = request.query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise Refused(bad_request, message=f"{name} is not a number.")
    return int(text)
