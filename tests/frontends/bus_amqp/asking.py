"""Requests to `$cbs` and `$management`, in the shapes of the SDKs."""

import base64
import hashlib
import hmac
import time
from typing import Any
from urllib.parse import quote_plus

from raw_amqp import RawClient

from etagere.frontends.bus_amqp.requests import Request, read_request
from etagere.protocols.amqp.composites import encode_composite
from etagere.protocols.amqp.outcomes import Source, Target, accepted
from etagere.protocols.amqp.performatives import Disposition, Transfer
from etagere.protocols.amqp.sections import Properties, section

root_login = b"\0RootManageSharedAccessKey\0SAS_KEY_VALUE"


def sas(
    audience: str,
    *,
    key: str = "SAS_KEY_VALUE",
    name: str = "RootManageSharedAccessKey",
    expiry: int | None = None,
) -> str:
    resource = quote_plus(audience)
    until = int(time.time()) + 3_600 if expiry is None else expiry
    mac = hmac.new(key.encode(), f"{resource}\n{until}".encode(), hashlib.sha256).digest()
    signature = quote_plus(base64.b64encode(mac))
    return f"SharedAccessSignature sr={resource}&sig={signature}&se={until}&skn={name}"


def request(
    application: dict[str, Any], body: Any, *, message_id: Any = "1", reply_to: Any = None
) -> bytes:
    return (
        encode_composite(Properties(message_id, reply_to=reply_to))
        + section(0x74, application)
        + section(0x77, body)
    )


class Node:
    """A pair of links to a node, and questions to it."""

    def __init__(self, client: RawClient, address: str, out: int, back: int, reply_to: Any) -> None:
        self.client = client
        self.address = address
        self.out = out
        self.back = back
        self.reply_to = reply_to
        self.asked = 0
        self.properties = Properties()

    @classmethod
    async def open(
        cls,
        client: RawClient,
        address: str,
        *,
        handles: tuple[int, int] = (10, 11),
        reply_name: str | None = None,
        reply_target: Any = None,
        reply_to: Any = None,
        credit: int = 100,
        **fields: Any,
    ) -> "Node":
        out, back = handles
        await client.attach(
            address, handle=back, receiver=True, name=reply_name, target=Target(reply_target),
            **fields,
        )  # fmt: skip
        await client.attach(address, handle=out, source=Source(None))
        if credit:
            client.credit(credit, handle=back)
        return cls(client, address, out, back, reply_to)

    def ask(self, application: dict[str, Any], body: Any, **options: Any) -> int:
        self.asked += 1
        options.setdefault("message_id", f"request-{self.asked}")
        options.setdefault("reply_to", self.reply_to)
        fields = options.pop("fields", {})
        payload = request(application, body, **options)
        return self.client.transfer(payload, handle=self.out, **fields)

    async def answer(self) -> Request:
        """The next one; the request's own acknowledgement comes before it."""
        while True:
            heard = await self.client.hear()
            if isinstance(heard, Transfer):
                assert heard.handle == self.back
                assert heard.message_format == 0
                assert heard.delivery_tag
                if not heard.settled:
                    number = heard.delivery_id
                    assert number is not None
                    self.client.say(Disposition(True, number, number, True, accepted))
                return read_request(self.client.payload)

    async def put_token(self, token: Any, audience: str, **more: Any) -> Request:
        application = {
            "operation": "put-token",
            "type": "servicebus.windows.net:sastoken",
            "name": audience,
        }
        self.ask(application | more, token)
        return await self.answer()

    async def manage(self, operation: str, body: Any, **options: Any) -> Request:
        application = {"operation": f"com.microsoft:{operation}"} | options.pop("application", {})
        self.ask(application, body, **options)
        return await self.answer()
