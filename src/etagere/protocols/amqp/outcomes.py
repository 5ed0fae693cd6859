"""Delivery states, errors, termini (AMQP 1.0 part 2, 2.8.14; part 3, 3.4, 3.5; part 4, 4.5)."""

from typing import Any, Final

from etagere.protocols.amqp.composites import (
    Composite,
    Field,
    anything,
    binary,
    boolean,
    composite_kind,
    encode_composite,
    fields_map,
    layout,
    string,
    symbol,
    symbols,
    uint,
    ulong,
)
from etagere.protocols.amqp.values import Symbol


class Error(Composite, frozen=True):
    condition: Symbol
    description: str | None = None
    info: dict[Any, Any] | None = None


class Received(Composite, frozen=True):
    section_number: int
    section_offset: int


class Accepted(Composite, frozen=True):
    pass


class Rejected(Composite, frozen=True):
    error: Error | None = None


class Released(Composite, frozen=True):
    pass


class Modified(Composite, frozen=True):
    delivery_failed: bool | None = None
    undeliverable_here: bool | None = None
    message_annotations: dict[Any, Any] | None = None


class Declared(Composite, frozen=True):
    transaction_id: bytes


class TransactionalState(Composite, frozen=True):
    transaction_id: bytes
    outcome: "Outcome | None" = None


Outcome = Accepted | Rejected | Released | Modified
DeliveryState = Outcome | Received | Declared | TransactionalState


class Declare(Composite, frozen=True):
    global_id: Any = None


class Discharge(Composite, frozen=True):
    transaction_id: bytes
    fail: bool = False


class Source(Composite, frozen=True):
    address: Any = None
    durable: int = 0
    expiry_policy: Symbol = Symbol("session-end")
    timeout: int = 0
    dynamic: bool = False
    dynamic_node_properties: dict[Any, Any] | None = None
    distribution_mode: Symbol | None = None
    filter: dict[Any, Any] | None = None
    default_outcome: Outcome | None = None
    outcomes: tuple[Symbol, ...] | None = None
    capabilities: tuple[Symbol, ...] | None = None


class Target(Composite, frozen=True):
    address: Any = None
    durable: int = 0
    expiry_policy: Symbol = Symbol("session-end")
    timeout: int = 0
    dynamic: bool = False
    dynamic_node_properties: dict[Any, Any] | None = None
    capabilities: tuple[Symbol, ...] | None = None


class Coordinator(Composite, frozen=True):
    capabilities: tuple[Symbol, ...] | None = None


def _outcome_classes() -> tuple[type, ...]:
    return (Accepted, Rejected, Released, Modified)


def _state_classes() -> tuple[type, ...]:
    return (Accepted, Rejected, Released, Modified, Received, Declared, TransactionalState)


def _error_classes() -> tuple[type, ...]:
    return (Error,)


def _source_classes() -> tuple[type, ...]:
    return (Source,)


def _target_classes() -> tuple[type, ...]:
    return (Target, Coordinator)


outcome_kind: Final = composite_kind("outcome", _outcome_classes)
state_kind: Final = composite_kind("delivery-state", _state_classes)
error_kind: Final = composite_kind("error", _error_classes)
source_kind: Final = composite_kind("source", _source_classes)
target_kind: Final = composite_kind("target", _target_classes)

_expiry: Final = Field(symbol, default=Symbol("session-end"))
_off: Final = Field(boolean, default=False)
_zero: Final = Field(uint, default=0)

layout(0x1D, "amqp:error:list", Error, Field(symbol, True), Field(string), Field(fields_map))
layout(0x23, "amqp:received:list", Received, Field(uint, True), Field(ulong, True))
layout(0x24, "amqp:accepted:list", Accepted)
layout(0x25, "amqp:rejected:list", Rejected, Field(error_kind))
layout(0x26, "amqp:released:list", Released)
layout(0x27, "amqp:modified:list", Modified, Field(boolean), Field(boolean), Field(fields_map))
layout(
    0x28,
    "amqp:source:list",
    Source,
    Field(anything),
    _zero,
    _expiry,
    _zero,
    _off,
    Field(fields_map),
    Field(symbol),
    Field(fields_map),
    Field(outcome_kind),
    Field(symbols),
    Field(symbols),
)
layout(
    0x29,
    "amqp:target:list",
    Target,
    Field(anything),
    _zero,
    _expiry,
    _zero,
    _off,
    Field(fields_map),
    Field(symbols),
)
layout(0x30, "amqp:coordinator:list", Coordinator, Field(symbols))
layout(0x31, "amqp:declare:list", Declare, Field(anything))
layout(0x32, "amqp:discharge:list", Discharge, Field(binary, True), _off)
layout(0x33, "amqp:declared:list", Declared, Field(binary, True))
layout(
    0x34,
    "amqp:transactional-state:list",
    TransactionalState,
    Field(binary, True),
    Field(outcome_kind),
)

accepted: Final = Accepted()
released: Final = Released()
accepted_bytes: Final = encode_composite(accepted)
