"""How much of everything a peer may ask for."""

from dataclasses import dataclass
from typing import Final

frame_bytes_min: Final = 512
"""AMQP 1.0 part 2, section 2.8.19: no peer may announce less."""

nesting_max: Final = 64
"""Levels of lists, maps, arrays and descriptions inside one another."""

compound_items_max: Final = 65_536
zero_width_items_max: Final = 32
"""Items of an array whose type takes no bytes: they would cost memory that nobody sent."""

milliseconds_per_second: Final = 1_000


@dataclass(frozen=True, slots=True)
class Limits:
    """What one connection announces and enforces; the defaults are those of the Standard tier."""

    frame_bytes_in_max: int = 262_144
    frame_bytes_out_max: int = 1_048_576
    """A peer may take larger frames; more than this gains nothing."""
    channel_max: int = 4_999
    handle_max: int = 255
    links_per_connection_max: int = 5_000
    idle_timeout_milliseconds: int = 240_000
    handshake_seconds_max: int = 20
    """From the first byte to an open connection."""
    close_seconds_max: int = 5
    """How long a close of ours waits for its answer."""
    incoming_window_transfers: int = 5_000
    outgoing_window_transfers: int = 5_000
    credit_overdraft_max: int = 1_000
    """Transfers taken beyond the credit: pyAMQP sends before it has seen any."""
    message_bytes_default: int = 262_144
    partial_bytes_max: int = 67_108_864
    """Of messages that have begun to arrive, over all links of the connection."""
    delivery_tag_bytes_max: int = 64
    """AMQP ends at 32 (part 2, 2.8.7). Service Bus takes more: its older client for Java has the
    letters of a UUID.
    """
