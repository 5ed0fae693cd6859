"""What scenarios for both kinds of client need: one way to await, to list and to close them."""

import inspect
import json
import time
from base64 import urlsafe_b64encode
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Self

import azure.storage.blob as blocking
import azure.storage.blob.aio as waiting
from azure.core.credentials import AccessToken

from etagere.testing import EtagereServer, ServerProcess

sdks = {"blocking": blocking, "waiting": waiting}
kibibyte = 1 << 10
mebibyte = 1 << 20


async def done(result: Any) -> Any:
    """What a method of either kind of client comes to."""
    return await result if inspect.isawaitable(result) else result


async def listed(items: Any) -> list[Any]:
    if hasattr(items, "__aiter__"):
        return [item async for item in items]
    return list(items)


async def pages_of(items: Any) -> list[list[Any]]:
    pages = items.by_page()
    if hasattr(pages, "__aiter__"):
        return [await listed(page) async for page in pages]
    return [list(page) for page in pages]


async def content(blob: Any, **options: Any) -> Any:
    """All that a download brings."""
    return await done((await done(blob.download_blob(**options))).readall())


def soon() -> datetime:
    return datetime.now(UTC) + timedelta(hours=1)


def methods(client: type) -> set[str]:
    """The names of all that can be called, properties and what begins with `_` left out."""
    return {
        name
        for name in dir(client)
        if not name.startswith("_") and callable(getattr(client, name, None))
    }


def bearer_token() -> str:
    """Claims that nobody has signed, for a server that was told to look at no signature."""
    now = int(time.time())
    claims = {
        "aud": "https://storage.azure.com",
        "iss": "https://sts.windows.net/11111111-1111-1111-1111-111111111111/",
        "iat": now - 60,
        "nbf": now - 60,
        "exp": now + 3600,
        "oid": "22222222-2222-2222-2222-222222222222",
        "tid": "11111111-1111-1111-1111-111111111111",
    }
    parts = ({"alg": "none", "typ": "JWT"}, claims)
    encoded = [urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*encoded, "c2lnbmF0dXJl"])


class Credential:
    """Somebody who has a token already."""

    def get_token(self, *scopes: str, **options: object) -> AccessToken:
        return AccessToken(bearer_token(), int(soon().timestamp()))


class AsyncCredential:
    async def get_token(self, *scopes: str, **options: object) -> AccessToken:
        return Credential().get_token(*scopes)

    async def close(self) -> None:
        pass

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *reason: object) -> None:
        pass


@dataclass
class Using:
    """One kind of client, an account of its own, and a container that is there already."""

    sdk: Any
    process: ServerProcess
    account: EtagereServer
    authority: str
    elsewhere: str
    """A web server that is not Azure's, whose answers take long."""
    closing: AsyncExitStack

    async def with_account(self, **options: Any) -> "Using":
        """The same with an account that is told to do more."""
        account = EtagereServer(self.process, options)
        self.closing.callback(account.close)
        found = replace(self, account=account)
        await done((await found.container()).create_container())
        return found

    @property
    def options(self) -> dict[str, Any]:
        return {"connection_verify": self.authority, "retry_total": 0}

    @property
    def connection_string(self) -> str:
        return self.account.connection_string

    @property
    def credential(self) -> dict[str, str]:
        return {
            "account_name": self.account.account_name,
            "account_key": self.account.account_key,
        }

    async def opened(self, client: Any) -> Any:
        if hasattr(client, "__aenter__"):
            return await self.closing.enter_async_context(client)
        return self.closing.enter_context(client)

    async def service(self, **options: Any) -> Any:
        return await self.opened(
            self.sdk.BlobServiceClient.from_connection_string(
                self.connection_string, **{**self.options, **options}
            )
        )

    async def container(self, name: str = "things", **options: Any) -> Any:
        return (await self.service(**options)).get_container_client(name)

    async def blob(self, name: str = "blob", data: bytes | None = None, **options: Any) -> Any:
        found = (await self.container(**options)).get_blob_client(name)
        if data is not None:
            await done(found.upload_blob(data, overwrite=True))
        return found

    async def append_blob(self, name: str = "log", **options: Any) -> Any:
        found = await self.blob(name, **options)
        await done(found.create_append_blob())
        return found

    async def page_blob(self, name: str = "disk", size: int = 4096, **options: Any) -> Any:
        found = await self.blob(name, **options)
        await done(found.create_page_blob(size))
        return found

    def token(self, permissions: str = "rwdxlacuptfiy") -> str:
        """An account SAS."""
        return str(
            blocking.generate_account_sas(
                self.account.account_name,
                self.account.account_key,
                blocking.ResourceTypes(service=True, container=True, object=True),
                blocking.AccountSasPermissions.from_string(permissions),
                soon(),
            )
        )

    def source(self, blob: Any) -> str:
        """Where another operation reads a blob."""
        joint = "&" if "?" in blob.url else "?"
        return f"{blob.url}{joint}{self.token('r')}"
