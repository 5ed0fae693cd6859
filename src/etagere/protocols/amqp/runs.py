"""Runs of frames that differ only in their numbers: many messages, many dispositions, at one go.

A client writes all transfers of a link in one way: after one that `walk_transfer` has read, the
next has the same bytes everywhere but in the frame's size, the delivery's id, its tag and the
payload.  So a *shape* is learnt from a frame that was walked, and whatever has the same bytes in
the same places means the same; a single `unpack` takes it apart.  The same goes for dispositions
that accept one delivery each.  The first frame that is different in anything ends the run and goes
the usual way.
"""

from collections import deque
from collections.abc import Callable, Iterator
from functools import lru_cache
from struct import Struct
from typing import Any, Final

from etagere.protocols.amqp.events import DispositionReceived, Event, TransfersReceived
from etagere.protocols.amqp.limits import Limits
from etagere.protocols.amqp.links import Delivery, Link, Session, serial_mask
from etagere.protocols.amqp.outcomes import accepted
from etagere.protocols.amqp.states import LinkState, SessionState

_attached: Final = LinkState.attached
_mapped: Final = SessionState.mapped
_list_heads: Final = {0xC0: 3, 0xD0: 9}
_handle_bytes: Final = {0x43: 1, 0x52: 2, 0x70: 5}
_body_at: Final = 8
_fields_at: Final = _body_at + 3
"""Behind the frame's header, and behind the performative's descriptor."""

Unpack = Callable[[bytes, int], tuple[Any, ...]]


@lru_cache(maxsize=256)
def _transfer_layout(prefix: int, tag: int, rest: int) -> Struct:
    return Struct(f">I{prefix}sI2s{tag}x{rest}s")


@lru_cache(maxsize=256)
def _range_layout(prefix: int, rest: int) -> Struct:
    return Struct(f">{prefix}sIsI{rest}s")


@lru_cache(maxsize=256)
def _single_layout(prefix: int, rest: int) -> Struct:
    return Struct(f">{prefix}sI{rest}s")


class TransferShape:
    """What whole, stateless transfers of one link look like up to their payload."""

    __slots__ = (
        "handle",
        "link",
        "message_format",
        "middle",
        "prefix",
        "rest",
        "session",
        "settled",
        "size",
        "unpack",
    )

    def __init__(self, link: Link, handle: int, message_format: int, settled: bool) -> None:
        self.link = link
        self.session = link.session
        self.handle = handle
        self.message_format = message_format
        self.settled = settled
        self.prefix = b""
        """From behind the frame's size up to the constructor of the delivery's id."""
        self.middle = b""
        """The tag's constructor and length."""
        self.rest = b""
        """Behind the tag."""
        self.size = 0
        """Of the frame without its payload."""
        self.unpack: Unpack

    def learn(self, buffer: bytes, at: int, payload: int) -> bool:
        """From a frame that was walked; False if its numbers may change their width."""
        number = at + _fields_at + _list_heads[buffer[at + _fields_at]]
        number += _handle_bytes[buffer[number]]
        if buffer[number] != 0x70:
            return False
        tag = number + 5
        tag_bytes = buffer[tag + 1]
        self.prefix = buffer[at + 4 : number + 1]
        self.middle = buffer[tag : tag + 2]
        self.rest = buffer[tag + 2 + tag_bytes : payload]
        layout = _transfer_layout(len(self.prefix), tag_bytes, len(self.rest))
        self.size = layout.size
        self.unpack = layout.unpack_from
        return True


class AcceptedShape:
    """What dispositions that accept one delivery of ours look like."""

    __slots__ = ("has_last", "prefix", "rest", "session", "settled", "size", "unpack_each")

    def __init__(self, session: Session, settled: bool) -> None:
        self.session = session
        self.settled = settled
        self.prefix = b""
        """The frame up to the constructor of the first number."""
        self.rest = b""
        """Behind the last number."""
        self.has_last = False
        self.size = 0
        """Of the frame."""
        self.unpack_each: Callable[[memoryview], Iterator[tuple[Any, ...]]]

    def learn(self, buffer: bytes, at: int, end: int) -> bool:
        """From a frame that was walked; False if its numbers may change their width."""
        first = at + _fields_at + _list_heads[buffer[at + _fields_at]]
        first += 2 if buffer[first] == 0x56 else 1
        if buffer[first] != 0x70:
            return False
        last = first + 5
        self.prefix = buffer[at : first + 1]
        self.has_last = buffer[last] == 0x70
        if not self.has_last and buffer[last] != 0x40:
            return False
        self.rest = buffer[last + 5 : end] if self.has_last else buffer[last:end]
        make = _range_layout if self.has_last else _single_layout
        layout = make(len(self.prefix), len(self.rest))
        self.size = layout.size
        self.unpack_each = layout.iter_unpack
        return True


class Runs:
    """The shapes of one connection, and what they take."""

    __slots__ = ("_accepted", "_events", "_limits", "_mapped", "_transfers", "_walked")

    def __init__(self, limits: Limits, mapped: dict[int, Session], events: deque[Event]) -> None:
        self._limits = limits
        self._mapped = mapped
        self._events = events
        self._transfers: TransferShape | None = None
        self._accepted: AcceptedShape | None = None
        self._walked: Link | None = None

    # ---- learning

    def walked_transfer(
        self,
        link: Link,
        handle: int,
        message_format: int,
        settled: bool,
        buffer: bytes,
        at: int,
        payload: int,
    ) -> None:
        """A whole transfer was taken the usual way: the next one may look the same."""
        if link is not self._walked:
            self._walked = link  # two links take turns: there are no runs
            return
        shape = TransferShape(link, handle, message_format, settled)
        self._transfers = shape if shape.learn(buffer, at, payload) else None

    def walked_accepted(
        self, session: Session, settled: bool, buffer: bytes, at: int, end: int
    ) -> None:
        shape = AcceptedShape(session, settled)
        self._accepted = shape if shape.learn(buffer, at, end) else None

    # ---- taking

    def take(self, buffer: bytes, at: int, length: int) -> int:
        """Where the run that begins at `at` ends: `at` itself if there is none.

        There are at least a frame header's bytes, and the connection is open.
        """
        if length - at <= _fields_at:
            return at
        code = buffer[at + _fields_at - 1]
        if code == 0x14:
            transfers = self._transfers
            if transfers is not None:
                return self._take_transfers(transfers, buffer, at, length)
        elif code == 0x15:
            shape = self._accepted
            if shape is not None:
                return self._take_accepted(shape, buffer, at, length)
        return at

    def _take_transfers(self, shape: TransferShape, buffer: bytes, at: int, length: int) -> int:
        link, session = shape.link, shape.session
        channel = session.channel
        if (
            link.state is not _attached
            or session.state is not _mapped
            or self._mapped.get(channel) is not session
            or session.links.get(shape.handle) is not link
            or link.partial is not None
        ):
            self._transfers = None
            return at
        window_half = self._limits.incoming_window_transfers >> 1
        room = min(link.credit, session.incoming_window - window_half)
        unpack, size = shape.unpack, shape.size
        prefix, middle, rest = shape.prefix, shape.middle, shape.rest
        most = min(size + link.max_message_size, self._limits.frame_bytes_in_max)
        numbers: list[int] = []
        spans: list[tuple[int, int]] = []
        while length - at >= size and len(numbers) < room:
            frame, head, number, between, tail = unpack(buffer, at)
            if head != prefix or tail != rest or between != middle or not size <= frame <= most:
                break
            end = at + frame
            if end > length:
                break
            numbers.append(number)
            spans.append((at + size, end))
            at = end
        count = len(numbers)
        if count:
            session.incoming_window -= count
            session.next_incoming_id = (session.next_incoming_id + count) & serial_mask
            link.credit -= count
            link.delivery_count = (link.delivery_count + count) & serial_mask
            if not shape.settled:
                session.unsettled_in.update(dict.fromkeys(numbers, link))
            self._events.append(
                TransfersReceived(link, numbers, shape.message_format, shape.settled, buffer, spans)
            )
        return at

    def _take_accepted(self, shape: AcceptedShape, buffer: bytes, at: int, length: int) -> int:
        session = shape.session
        if session.state is not _mapped or self._mapped.get(session.channel) is not session:
            self._accepted = None
            return at
        size, has_last = shape.size, shape.has_last
        prefix, rest, settled = shape.prefix, shape.rest, shape.settled
        unsettled = session.unsettled
        run: list[Delivery] = []
        link: Link | None = None
        whole = (length - at) // size * size
        for fields in shape.unpack_each(memoryview(buffer)[at : at + whole]):
            if has_last:
                head, number, between, last, tail = fields
                if head != prefix or tail != rest or last != number or between != b"\x70":
                    break
            else:
                head, number, tail = fields
                if head != prefix or tail != rest:
                    break
            delivery = unsettled.get(number)
            if delivery is None:
                break
            if delivery.link is not link:
                if link is not None:
                    break
                link = delivery.link
            if settled:
                del unsettled[number]
            run.append(delivery)
        if link is not None:
            self._events.append(DispositionReceived(link, run, accepted, settled))
        return at + size * len(run)
