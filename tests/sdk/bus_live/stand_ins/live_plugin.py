"""A pytest plugin: makes the live tests of azure-servicebus find what they import, and trust."""

import os
import sys
import types
from typing import Any

import certifi


def _module(name: str, **contents: Any) -> None:
    module = types.ModuleType(name)
    module.__path__ = []
    vars(module).update(contents)
    sys.modules[name] = module


def pytest_configure(config: Any) -> None:
    import servicebus_preparer

    authority = os.environ["SSL_CERT_FILE"]
    certifi.where = lambda: authority
    _module("azure.mgmt")
    _module("azure.mgmt.servicebus")
    _module("azure.mgmt.servicebus.models", AccessRights=servicebus_preparer.AccessRights)
    _module("azure.common", AzureHttpError=Exception, AzureConflictHttpError=Exception)
    for name in ("liveTest", "live_test_only", "playback_test_only"):
        config.addinivalue_line("markers", name)
