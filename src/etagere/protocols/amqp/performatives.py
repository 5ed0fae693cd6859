"""The frame bodies of AMQP 1.0 part 2, section 2.7, and of SASL, part 5, section 5.3.3."""

from typing import Any, Final

from etagere.protocols.amqp.composites import (
    Composite,
    Field,
    binary,
    boolean,
    fields_map,
    layout,
    read_composite,
    string,
    symbol,
    symbols,
    ubyte,
    uint,
    ulong,
    ushort,
)
from etagere.protocols.amqp.decoding import decode
from etagere.protocols.amqp.errors import DecodeFault
from etagere.protocols.amqp.outcomes import (
    Coordinator,
    DeliveryState,
    Error,
    Source,
    Target,
    error_kind,
    source_kind,
    state_kind,
    target_kind,
)
from etagere.protocols.amqp.values import Symbol

Symbols = tuple[Symbol, ...] | None
Fields = dict[Any, Any] | None


class Open(Composite, frozen=True):
    container_id: str
    hostname: str | None = None
    max_frame_size: int = 0xFFFFFFFF
    channel_max: int = 0xFFFF
    idle_time_out: int | None = None
    outgoing_locales: Symbols = None
    incoming_locales: Symbols = None
    offered_capabilities: Symbols = None
    desired_capabilities: Symbols = None
    properties: Fields = None


class Begin(Composite, frozen=True):
    remote_channel: int | None
    next_outgoing_id: int
    incoming_window: int
    outgoing_window: int
    handle_max: int = 0xFFFFFFFF
    offered_capabilities: Symbols = None
    desired_capabilities: Symbols = None
    properties: Fields = None


class Attach(Composite, frozen=True):
    name: str
    handle: int
    role: bool
    """True is the receiver's."""
    snd_settle_mode: int = 2
    rcv_settle_mode: int = 0
    source: Source | None = None
    target: Target | Coordinator | None = None
    unsettled: Fields = None
    incomplete_unsettled: bool = False
    initial_delivery_count: int | None = None
    max_message_size: int | None = None
    offered_capabilities: Symbols = None
    desired_capabilities: Symbols = None
    properties: Fields = None


class Flow(Composite, frozen=True):
    next_incoming_id: int | None
    incoming_window: int
    next_outgoing_id: int
    outgoing_window: int
    handle: int | None = None
    delivery_count: int | None = None
    link_credit: int | None = None
    available: int | None = None
    drain: bool = False
    echo: bool = False
    properties: Fields = None


class Transfer(Composite, frozen=True):
    handle: int
    delivery_id: int | None = None
    delivery_tag: bytes | None = None
    message_format: int | None = None
    settled: bool | None = None
    more: bool = False
    rcv_settle_mode: int | None = None
    state: DeliveryState | None = None
    resume: bool = False
    aborted: bool = False
    batchable: bool = False


class Disposition(Composite, frozen=True):
    role: bool
    first: int
    last: int | None = None
    settled: bool = False
    state: DeliveryState | None = None
    batchable: bool = False


class Detach(Composite, frozen=True):
    handle: int
    closed: bool = False
    error: Error | None = None


class End(Composite, frozen=True):
    error: Error | None = None


class Close(Composite, frozen=True):
    error: Error | None = None


class SaslMechanisms(Composite, frozen=True):
    mechanisms: tuple[Symbol, ...]


class SaslInit(Composite, frozen=True):
    mechanism: Symbol
    initial_response: bytes | None = None
    hostname: str | None = None


class SaslChallenge(Composite, frozen=True):
    challenge: bytes


class SaslResponse(Composite, frozen=True):
    response: bytes


class SaslOutcome(Composite, frozen=True):
    code: int
    additional_data: bytes | None = None


_off: Final = Field(boolean, default=False)
_capabilities: Final = (Field(symbols), Field(symbols), Field(fields_map))

layout(
    0x10,
    "amqp:open:list",
    Open,
    Field(string, True),
    Field(string),
    Field(uint, default=0xFFFFFFFF),
    Field(ushort, default=0xFFFF),
    Field(uint),
    Field(symbols),
    Field(symbols),
    *_capabilities,
)
layout(
    0x11,
    "amqp:begin:list",
    Begin,
    Field(ushort),
    Field(uint, True),
    Field(uint, True),
    Field(uint, True),
    Field(uint, default=0xFFFFFFFF),
    *_capabilities,
)
layout(
    0x12,
    "amqp:attach:list",
    Attach,
    Field(string, True),
    Field(uint, True),
    Field(boolean, True),
    Field(ubyte, default=2),
    Field(ubyte, default=0),
    Field(source_kind),
    Field(target_kind),
    Field(fields_map),
    _off,
    Field(uint),
    Field(ulong),
    *_capabilities,
)
layout(
    0x13,
    "amqp:flow:list",
    Flow,
    Field(uint),
    Field(uint, True),
    Field(uint, True),
    Field(uint, True),
    Field(uint),
    Field(uint),
    Field(uint),
    Field(uint),
    _off,
    _off,
    Field(fields_map),
)
layout(
    0x14,
    "amqp:transfer:list",
    Transfer,
    Field(uint, True),
    Field(uint),
    Field(binary),
    Field(uint),
    Field(boolean),
    _off,
    Field(ubyte),
    Field(state_kind),
    _off,
    _off,
    _off,
)
layout(
    0x15,
    "amqp:disposition:list",
    Disposition,
    Field(boolean, True),
    Field(uint, True),
    Field(uint),
    _off,
    Field(state_kind),
    _off,
)
layout(0x16, "amqp:detach:list", Detach, Field(uint, True), _off, Field(error_kind))
layout(0x17, "amqp:end:list", End, Field(error_kind))
layout(0x18, "amqp:close:list", Close, Field(error_kind))
layout(0x40, "amqp:sasl-mechanisms:list", SaslMechanisms, Field(symbols, True))
layout(0x41, "amqp:sasl-init:list", SaslInit, Field(symbol, True), Field(binary), Field(string))
layout(0x42, "amqp:sasl-challenge:list", SaslChallenge, Field(binary, True))
layout(0x43, "amqp:sasl-response:list", SaslResponse, Field(binary, True))
layout(0x44, "amqp:sasl-outcome:list", SaslOutcome, Field(ubyte, True), Field(binary))

Performative = Open | Begin | Attach | Flow | Transfer | Disposition | Detach | End | Close
SaslFrame = SaslMechanisms | SaslInit | SaslChallenge | SaslResponse | SaslOutcome

_performatives: Final = (Open, Begin, Attach, Flow, Transfer, Disposition, Detach, End, Close)
_sasl_frames: Final = (SaslMechanisms, SaslInit, SaslChallenge, SaslResponse, SaslOutcome)


def read_performative(buffer: bytes, at: int, end: int) -> tuple[Performative, int]:
    """The performative at `at`, and where a transfer's payload begins."""
    value, at = decode(buffer, at, end)
    performative = read_composite(value)
    if isinstance(performative, _performatives):
        if at != end and type(performative) is not Transfer:
            raise DecodeFault("Bytes are left over after a performative.")
        return performative, at
    raise DecodeFault("A frame's body is no performative.")


def read_sasl(buffer: bytes, at: int, end: int) -> SaslFrame:
    value, at = decode(buffer, at, end)
    frame = read_composite(value)
    if isinstance(frame, _sasl_frames) and at == end:
        return frame
    raise DecodeFault("A SASL frame's body is none of SASL's.")
