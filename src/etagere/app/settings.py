"""Every setting of `etagere serve`, once: its flag, variable and key in the file follow from its
name, and the documentation is generated from here."""

# ruff: noqa: RUF009 - the defaults are made by functions that only call `field`

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Final

services_known: Final = ("blob", "queue", "table", "files", "dfs", "smb", "bus")
services_available: Final = ("blob", "queue", "table", "bus")
"""Those that this version has; the others keep their names and ports."""

ports_of_services: Final[Mapping[str, tuple[str, ...]]] = {
    "blob": ("blob_port",),
    "queue": ("queue_port",),
    "table": ("table_port",),
    "files": ("files_port",),
    "dfs": ("dfs_port",),
    "smb": ("smb_port",),
    "bus": ("amqp_port", "amqps_port", "bus_admin_port"),
}

development_namespace: Final = "sbemulatorns"
development_namespace_key: Final = "SAS_KEY_VALUE"


class Kind(Enum):
    """How a setting's text is read."""

    TEXT = "text"
    PATH = "path"
    PORT = "port"
    COUNT = "count"
    FLAG = "flag"
    CHOICE = "choice"
    NAMES = "names"
    """Comma-separated on the command line and in variables, a list in the file."""
    REPEATED = "repeated"
    """A flag that may be given several times; semicolon-separated in a variable."""


@dataclass(frozen=True, slots=True)
class About:
    """What is known of a setting beside its default."""

    kind: Kind
    help: str
    choices: tuple[str, ...] = ()
    metavar: str = ""
    in_file: bool = True
    advice: str = ""


def _setting(
    default: Any,
    kind: Kind,
    help_: str,
    *,
    choices: tuple[str, ...] = (),
    metavar: str = "",
    in_file: bool = True,
) -> Any:
    about = About(kind, help_, choices, metavar, in_file)
    return field(default=default, metadata={"about": about})


def _port(default: int, what: str) -> Any:
    return _setting(default, Kind.PORT, f"port of {what}; 0 takes a free one", metavar="PORT")


@dataclass(frozen=True, slots=True)
class BusNamespace:
    """A Service Bus namespace: `[bus.NAME]`."""

    tier: str = "Standard"
    rules: tuple["BusRule", ...] = ()


@dataclass(frozen=True, slots=True)
class BusRule:
    name: str
    key: str
    rights: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AccountEntry:
    """A storage account as it was configured: `[accounts.NAME]`."""

    keys: tuple[str, ...] = ()
    options: Mapping[str, bool | int | str] = field(default_factory=dict)
    """By the names of the fields of `services.common.accounts.Account`."""


options_of_later_versions: Final = (
    "hierarchical_namespace",
    "change_feed",
    "share_soft_delete_days",
)
"""Of accounts: they belong to services that this version does not have, and change little or
nothing yet."""

account_kinds: Final = ("StorageV2", "BlockBlobStorage", "FileStorage", "BlobStorage", "Storage")
account_skus: Final = (
    "Standard_LRS",
    "Standard_GRS",
    "Standard_RAGRS",
    "Standard_ZRS",
    "Standard_GZRS",
    "Standard_RAGZRS",
    "Premium_LRS",
    "Premium_ZRS",
)
bus_tiers: Final = ("Basic", "Standard", "Premium")
bus_rights: Final = ("Manage", "Send", "Listen")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    data: Path = _setting(
        Path("etagere-data"), Kind.PATH, "directory that holds everything", metavar="DIR"
    )
    in_memory: bool = _setting(False, Kind.FLAG, "keep everything in memory and lose it at the end")
    host: str = _setting("127.0.0.1", Kind.TEXT, "address to listen on", metavar="ADDRESS")
    blob_port: int = _port(10000, "Blob")
    queue_port: int = _port(10001, "Queue")
    table_port: int = _port(10002, "Table")
    files_port: int = _port(10003, "Files over REST")
    dfs_port: int = _port(10004, "Data Lake")
    smb_port: int = _port(10445, "Files over SMB")
    amqp_port: int = _port(5672, "Service Bus")
    amqps_port: int = _port(5671, "Service Bus over TLS")
    bus_admin_port: int = _port(5300, "Service Bus administration")
    admin_port: int = _port(10080, "the admin API")
    admin_host: str = _setting(
        "127.0.0.1",
        Kind.TEXT,
        "address of the admin API, which asks nobody for a key",
        metavar="ADDRESS",
    )
    services: tuple[str, ...] = _setting(
        services_available, Kind.NAMES, "services to start", choices=services_known, metavar="NAMES"
    )
    workers: int = _setting(
        1, Kind.COUNT, "processes that serve storage over the one store", metavar="N"
    )
    durability: str = _setting(
        "sync",
        Kind.CHOICE,
        "sync: acknowledge what is on stable storage; relaxed: sync at least every second",
        choices=("sync", "relaxed"),
    )
    account: tuple[str, ...] = _setting(
        (),
        Kind.REPEATED,
        "a storage account and its one or two keys; may be given several times",
        metavar="NAME:KEY[:KEY2]",
        in_file=False,
    )
    bus_config: Path | None = _setting(
        None, Kind.PATH, "Config.json of the official Service Bus emulator", metavar="FILE"
    )
    tls_cert: Path | None = _setting(
        None, Kind.PATH, "certificate chain (PEM); needs --tls-key", metavar="FILE"
    )
    tls_key: Path | None = _setting(
        None, Kind.PATH, "private key (PEM); needs --tls-cert", metavar="FILE"
    )
    config: Path | None = _setting(
        None, Kind.PATH, "TOML file with settings and accounts", metavar="FILE", in_file=False
    )
    oauth: str = _setting(
        "",
        Kind.CHOICE,
        "bearer tokens: off, basic (claims checked, signature not; the default with the "
        "development account on loopback), oidc (verified with the issuers' keys; the default "
        "with --oidc-issuer)",
        choices=("off", "basic", "oidc"),
    )
    oidc_issuer: tuple[str, ...] = _setting(
        (), Kind.REPEATED, "an issuer whose tokens are taken; may be repeated", metavar="URL"
    )
    oidc_audience: tuple[str, ...] = _setting(
        (), Kind.REPEATED, "an audience beside Azure Storage's; may be repeated", metavar="NAME"
    )
    clock: str = _setting(
        "real",
        Kind.CHOICE,
        "virtual: the admin API may move time",
        choices=("real", "virtual"),
    )
    log_level: str = _setting(
        "info",
        Kind.CHOICE,
        "how much to log; debug has a line for every request",
        choices=("debug", "info", "warning", "error"),
    )
    log_format: str = _setting("text", Kind.CHOICE, "shape of a log line", choices=("text", "json"))
    strict_versions: bool = _setting(
        False, Kind.FLAG, "refuse x-ms-version values that are not known"
    )
    pop_receipt_mismatch: bool = _setting(
        False,
        Kind.FLAG,
        "refuse a pop receipt that was replaced with 400 PopReceiptMismatch, as emulators do, "
        "not with 404 MessageNotFound",
    )
    allow_development_key: bool = _setting(
        False, Kind.FLAG, "serve beyond loopback with keys that everybody knows"
    )
    ready_json: bool = _setting(False, Kind.FLAG, "print the ready line as JSON", in_file=False)

    accounts: Mapping[str, AccountEntry] = field(default_factory=dict)
    """By name: from --account, the variables and the file together."""
    namespaces: Mapping[str, BusNamespace] = field(default_factory=dict)


def described() -> dict[str, tuple[Any, About]]:
    """(default, about) of every setting that has a flag, in order."""
    return {
        item.name: (item.default, item.metadata["about"])
        for item in dataclasses.fields(Settings)
        if "about" in item.metadata
    }


def flag_of(name: str) -> str:
    return "--" + name.replace("_", "-")


def variable_of(name: str) -> str:
    return "ETAGERE_" + name.upper()
