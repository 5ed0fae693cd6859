"""What azure-servicebus's live tests take of Microsoft's test tools, for a server at hand."""

import base64
import json
import time
from collections.abc import Callable
from typing import Any, Self, TypeVar

from azure.core.credentials import AccessToken

F = TypeVar("F", bound=Callable[..., Any])
_lifetime_seconds = 7_200


def _token() -> AccessToken:
    """A bearer token of the kind that `--oauth basic` takes."""
    now = int(time.time())
    claims = {"aud": "https://servicebus.azure.net", "nbf": now, "exp": now + _lifetime_seconds}
    parts = ({"alg": "RS256", "typ": "JWT"}, claims, {})
    encoded = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in parts)
    return AccessToken(b".".join(encoded).decode(), now + _lifetime_seconds)


class _Credential:
    def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        return _token()

    def close(self) -> None:
        pass


class _AsyncCredential:
    async def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        return _token()

    async def close(self) -> None:
        pass

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


def get_credential(*, is_async: bool = False) -> object:
    return _AsyncCredential() if is_async else _Credential()


def recorded_by_proxy(test: F) -> F:
    """Nothing is recorded: there is a server."""
    return test


def set_custom_default_matcher(**_: object) -> None:
    pass


class AzureMgmtRecordedTestCase:
    is_live = True

    @staticmethod
    def await_prepared_test(test: F) -> F:
        return test


AzureRecordedTestCase = AzureMgmtRecordedTestCase


class CachedResourceGroupPreparer:
    def __init__(self, **_: object) -> None:
        pass

    def __call__(self, test: F) -> F:
        return test


RandomNameResourceGroupPreparer = CachedResourceGroupPreparer
