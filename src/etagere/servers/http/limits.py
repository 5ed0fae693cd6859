"""What one HTTP connection may ask of the server, and how long it may take to do so."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HttpLimits:
    url_bytes_max: int = 64 * 1024
    """A blob name of 1,024 four-byte characters is 12 KiB of escapes, and a listing has three."""
    head_bytes_max: int = 128 * 1024
    headers_max: int = 200
    keep_alive_seconds_max: float = 120.0
    """Longer than SDK connection pools keep an idle connection, so that the client closes first."""
    head_seconds_max: float = 20.0
    body_stall_seconds_max: float = 60.0
    body_pace_grace_seconds: float = 30.0
    pace_bytes_per_second_min: int = 240
    """A client that sends or takes less than this holds a connection for nothing."""
    write_stall_seconds_max: float = 120.0
    body_held_bytes_max: int = 512 * 1024
    """Of a body that nobody reads yet; above it the connection is not read."""
    parse_slice_bytes: int = 16 * 1024
    """Pipelined requests are parsed this much at a time, so that few wait in memory."""
    write_buffer_bytes_max: int = 512 * 1024
    drain_bytes_max: int = 1024 * 1024
    """An unread request body up to this long is read and dropped to keep the connection."""
    linger_bytes_max: int = 1024 * 1024 * 1024
    linger_seconds_max: float = 10.0
    """A longer one is dropped this far, so that the client gets to read the answer."""
    goodbye_seconds_max: float = 0.5
    """How long an idle client has to take note that the server stops."""
    connections_max: int = 60_000
