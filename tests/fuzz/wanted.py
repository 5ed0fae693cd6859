"""A request that is to be sent."""

from dataclasses import dataclass

account = "devstoreaccount1"


@dataclass(slots=True)
class Wanted:
    service: str
    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes
    operation: str = ""
    """The one that it began as."""
    sent_bytes: int | None = None
    """How much of the body arrives before the client goes; None for all of it."""

    def text(self) -> str:
        head = "".join(f"  {name}: {value!r}\n" for name, value in self.headers.items())
        return (
            f"{self.operation}: {self.method} {self.path}?{self.query}\n{head}"
            f"  body: {self.body[:2000]!r} ({len(self.body)} bytes, sent: {self.sent_bytes})"
        )
