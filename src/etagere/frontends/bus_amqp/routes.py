"""What a link's address stands for (AMQP protocol guide, "Addresses")."""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final
from urllib.parse import unquote

from etagere.base.errors import Refused
from etagere.frontends.bus_amqp import errors

address_chars_max: Final = 2_048
cbs_node: Final = "$cbs"
management_node: Final = "$management"
_management_suffix: Final = "/" + management_node


class RouteKind(Enum):
    cbs = auto()
    namespace_management = auto()
    management = auto()
    """Of `Route.path`."""
    entity = auto()


@dataclass(frozen=True, slots=True)
class Route:
    kind: RouteKind
    path: str
    """Of the entity, as the client writes it."""

    @property
    def node(self) -> str:
        """What request and reply links of one node have in common."""
        match self.kind:
            case RouteKind.cbs:
                return cbs_node
            case RouteKind.namespace_management:
                return management_node
            case _:
                return self.path.casefold() + _management_suffix


def route_of(address: Any) -> Route:
    """Refused if it is no address; whether anything is there is the broker's to say."""
    if not isinstance(address, str) or not address or len(address) > address_chars_max:
        raise Refused(errors.invalid_field, message="The link's address is not a path.")
    _, scheme, rest = address.partition("://")
    path = rest.partition("/")[2] if scheme else address
    path = unquote(path).strip("/")
    folded = path.casefold()
    if folded == cbs_node:
        return Route(RouteKind.cbs, "")
    if folded == management_node:
        return Route(RouteKind.namespace_management, "")
    if folded.endswith(_management_suffix):
        return Route(RouteKind.management, path[: -len(_management_suffix)].rstrip("/"))
    if not path:
        raise Refused(errors.invalid_field, message="The link's address is empty.")
    return Route(RouteKind.entity, path)
