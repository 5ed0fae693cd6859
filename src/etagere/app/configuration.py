"""Settings from the command line, the environment and a file; flags win over variables, variables
over the file.  Whatever cannot be used is one line that names it and says what to do."""

import dataclasses
import difflib
import ipaddress
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from etagere.app.settings import (
    About,
    AccountEntry,
    BusNamespace,
    BusRule,
    Kind,
    Settings,
    account_kinds,
    account_skus,
    bus_rights,
    bus_tiers,
    described,
    development_namespace,
    development_namespace_key,
    flag_of,
    options_of_later_versions,
    ports_of_services,
    services_available,
    variable_of,
)
from etagere.services.common.accounts import (
    Account,
    InvalidAccount,
    check_name,
    development_key,
    development_name,
    parse_keys,
)

azurite_variable: Final = "AZURITE_ACCOUNTS"
_namespace_name: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]{4,48}[A-Za-z0-9]")
_true: Final = frozenset({"1", "true", "yes", "on"})
_false: Final = frozenset({"0", "false", "no", "off", ""})
workers_max: Final = 256


class Unusable(Exception):  # noqa: N818 - one line for people
    """What was asked for cannot be done: the line says which part, and what to do.

    `usage`: it is the asking that is wrong, whatever the machine is like.
    """

    def __init__(self, line: str, *, usage: bool = False) -> None:
        super().__init__(line)
        self.usage = usage


def configure(flags: Mapping[str, Any], environment: Mapping[str, str]) -> Settings:
    """`flags` holds what was given on the command line, as text (lists for repeated flags)."""
    try:
        return _configure(flags, environment)
    except Unusable as error:
        error.usage = True
        raise


def _configure(flags: Mapping[str, Any], environment: Mapping[str, str]) -> Settings:
    rows = described()
    values: dict[str, Any] = {}
    accounts: dict[str, AccountEntry] = {}
    namespaces: dict[str, BusNamespace] = {}
    path = flags.get("config") or environment.get(variable_of("config"))
    if path:
        _apply_file(Path(path), rows, values, accounts, namespaces)
    _add_accounts(accounts, _split(environment.get(azurite_variable, "")), azurite_variable)
    for name, (_, about) in rows.items():
        variable = variable_of(name)
        if variable in environment:
            values[name] = _from_text(about, environment[variable], variable)
    _add_accounts(accounts, values.get("account", ()), variable_of("account"))
    for name, (_, about) in rows.items():
        if flags.get(name) is not None:
            values[name] = _from_text(about, flags[name], flag_of(name))
    if flags.get("account"):
        _add_accounts(accounts, values["account"], flag_of("account"))
    settings = Settings(**values, accounts=accounts, namespaces=namespaces)
    return _complete(settings, values)


def _complete(settings: Settings, given: Mapping[str, Any]) -> Settings:
    """Defaults that depend on other settings, and what does not go together."""
    if settings.in_memory and "data" in given:
        raise Unusable("--data and --in-memory exclude each other; leave one out.")
    if settings.in_memory and settings.workers > 1:
        raise Unusable("--workers needs a store on disk; leave --in-memory out.")
    if (settings.tls_cert is None) != (settings.tls_key is None):
        missing = "--tls-key" if settings.tls_key is None else "--tls-cert"
        raise Unusable(f"{missing} is missing: a certificate and its key go together.")
    for name in settings.services:
        if name not in services_available:
            raise Unusable(
                f"--services: {name} is not in this version, which has "
                f"{', '.join(services_available)}."
            )
    if settings.oauth == "oidc" and not settings.oidc_issuer:
        raise Unusable("--oauth oidc needs at least one --oidc-issuer.")
    if len(settings.namespaces) > 1:
        raise Unusable(
            f"{settings.config}: there are tables of {len(settings.namespaces)} Service Bus "
            "namespaces, and a server has one; leave one of them."
        )
    _check_ports(settings)
    accounts = dict(settings.accounts)
    for name, account in accounts.items():
        _check_account(name, account, str(settings.config))
    accounts = accounts or {development_name: AccountEntry(keys=(development_key,))}
    namespaces = settings.namespaces or {development_namespace: _development_namespace()}
    completed = dataclasses.replace(settings, accounts=accounts, namespaces=namespaces)
    local = is_loopback(settings.host)
    _refuse_known_keys(completed)
    oauth = settings.oauth
    if not oauth:
        if settings.oidc_issuer:
            oauth = "oidc"
        else:
            oauth = "basic" if local and development_name in accounts else "off"
    return dataclasses.replace(completed, oauth=oauth)


def _development_namespace() -> BusNamespace:
    rule = BusRule("RootManageSharedAccessKey", development_namespace_key, bus_rights)
    return BusNamespace(rules=(rule,))


def refuse_known_key(settings: Settings, name: str, entry: AccountEntry) -> None:
    """For an account that is there from the start or comes later."""
    if not is_open_to_others(settings):
        return
    # One key may be spelt in several ways.
    if development_key in (key.secret_base64() for key in parse_keys(name, entry.keys)):
        raise Unusable(
            f'account "{name}" {_beyond(settings)}; give it another with --account, or say '
            "--allow-development-key."
        )


def is_open_to_others(settings: Settings) -> bool:
    return not (is_loopback(settings.host) or settings.allow_development_key)


def _beyond(settings: Settings) -> str:
    return f"would be served on {settings.host}, beyond loopback, with a key that everybody knows"


def _refuse_known_keys(settings: Settings) -> None:
    for name, account in settings.accounts.items():
        refuse_known_key(settings, name, account)
    if "bus" not in settings.services or not is_open_to_others(settings):
        return
    for name, namespace in settings.namespaces.items():
        if any(rule.key == development_namespace_key for rule in namespace.rules):
            raise Unusable(
                f'Service Bus namespace "{name}" {_beyond(settings)}; give it rules in the '
                f"configuration file ([bus.{name}]), leave bus out of --services, or say "
                "--allow-development-key."
            )


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check_ports(settings: Settings) -> None:
    """Of the services that are asked for: those of others are free."""
    seen: dict[int, str] = {}
    for name in ("admin_port", *(n for s in settings.services for n in ports_of_services[s])):
        port = getattr(settings, name)
        other = seen.setdefault(port, name)
        if port and other != name:
            raise Unusable(
                f"{flag_of(other)} and {flag_of(name)} are both {port}; change one of them."
            )


# ---- values from text


def _from_text(about: About, text: Any, source: str) -> Any:
    match about.kind:
        case Kind.REPEATED:
            return tuple(text) if isinstance(text, list) else tuple(_split(text))
        case Kind.NAMES:
            return _names(about, [part.strip() for part in text.split(",") if part.strip()], source)
        case Kind.FLAG:
            return _flag(text, source)
        case Kind.PATH:
            if not text:
                raise Unusable(f"{source} is empty; give a path.")
            return Path(text)
        case Kind.PORT | Kind.COUNT:
            if not (text.isascii() and text.isdecimal()):
                raise Unusable(f'{source} is "{text}"; give a whole number.')
            return _number(about, int(text), source)
        case Kind.CHOICE:
            return _choice(about.choices, text, source)
        case Kind.TEXT:
            if not text:
                raise Unusable(f"{source} is empty; give a value or leave it out.")
            return text


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(";") if part.strip()]


def _flag(text: Any, source: str) -> bool:
    if isinstance(text, bool):
        return text
    lowered = text.strip().lower()
    if lowered in _true or lowered in _false:
        return lowered in _true
    raise Unusable(f'{source} is "{text}"; use true or false.')


def _number(about: About, number: int, source: str) -> int:
    if about.kind is Kind.PORT:
        low, high = 0, 65535
    else:
        low, high = 1, workers_max
    if not low <= number <= high:
        raise Unusable(f"{source} is {number}; it must be from {low} to {high}.")
    return number


def _choice(choices: tuple[str, ...], text: str, source: str) -> str:
    if text not in choices:
        raise Unusable(f'{source} is "{text}"; use one of {", ".join(choices)}.')
    return text


def _names(about: About, names: list[str], source: str) -> tuple[str, ...]:
    if not names:
        raise Unusable(f"{source} names nothing; use some of {', '.join(about.choices)}.")
    for name in names:
        if name not in about.choices:
            raise Unusable(
                f'{source} names "{name}", which is not known; use some of '
                f"{', '.join(about.choices)}."
            )
    return tuple(choice for choice in about.choices if choice in names)


# ---- accounts


def to_account(name: str, entry: AccountEntry) -> Account:
    options: Mapping[str, Any] = entry.options
    return Account(name=name, keys=parse_keys(name, entry.keys), **options)


def _parse_account(text: str, source: str) -> tuple[str, AccountEntry]:
    """`NAME:KEY[:KEY2]`"""
    name, *keys = text.split(":")
    entry = AccountEntry(keys=tuple(keys))
    _check_account(name, entry, source)
    return name, entry


def _check_account(name: str, entry: AccountEntry, source: str) -> None:
    try:
        check_name(name)
        if entry.keys:
            parse_keys(name, entry.keys)
    except InvalidAccount as error:
        raise Unusable(f"{source}: {error}; correct it.") from error
    if not entry.keys:
        raise Unusable(f'{source}: account "{name}" has no keys; give it one or two.')


def _add_accounts(accounts: dict[str, AccountEntry], texts: Any, source: str) -> None:
    for text in texts:
        name, given = _parse_account(text, source)
        known = accounts.get(name, given)
        accounts[name] = dataclasses.replace(known, keys=given.keys)


# ---- the file


def _apply_file(
    path: Path,
    rows: Mapping[str, tuple[Any, About]],
    values: dict[str, Any],
    accounts: dict[str, AccountEntry],
    namespaces: dict[str, BusNamespace],
) -> None:
    import tomllib  # noqa: PLC0415 - most starts have no file

    try:
        text = path.read_text(encoding="utf-8")
        tables = tomllib.loads(text)
    except OSError as error:
        raise Unusable(
            f"--config {path} cannot be read ({error.strerror}); check the path."
        ) from error
    except UnicodeDecodeError as error:
        raise Unusable(f"{path} is no text in UTF-8; save it as such.") from error
    except ValueError as error:
        raise Unusable(f"{path}: {error}; correct the line.") from error
    allowed = {name: about for name, (_, about) in rows.items() if about.in_file}
    for key, value in tables.items():
        source = _place(path, text, key)
        if key == "accounts":
            for name, table in _tables(value, source):
                accounts[name] = account_from_table(name, table, _place(path, text, name))
        elif key == "bus":
            for name, table in _tables(value, source):
                namespaces[name] = _namespace(name, table, _place(path, text, name))
        elif key in allowed:
            values[key] = _from_file(allowed[key], value, f'{source}: "{key}"')
        else:
            raise _unknown(key, [*allowed, "accounts", "bus"], source)


def _place(path: Path, text: str, key: str) -> str:
    """The file and the line where a key or a table of that name stands."""
    pattern = re.compile(rf'\s*(\[.*)?"?\b{re.escape(key)}\b')
    for number, line in enumerate(text.splitlines(), 1):
        if pattern.match(line):
            return f"{path}, line {number}"
    return str(path)


def _unknown(key: str, known: list[str], source: str) -> Unusable:
    near = difflib.get_close_matches(key, known, 1)
    hint = f'did you mean "{near[0]}"?' if near else f"known are: {', '.join(known)}."
    return Unusable(f'{source}: "{key}" is not known; {hint}')


def _tables(value: Any, source: str) -> list[tuple[str, dict[str, Any]]]:
    if not isinstance(value, dict) or not all(isinstance(item, dict) for item in value.values()):
        raise Unusable(f"{source}: expected tables, such as [accounts.myaccount].")
    return list(value.items())


def _from_file(about: About, value: Any, source: str) -> Any:
    match about.kind, value:
        case ((Kind.PORT | Kind.COUNT), int()) if not isinstance(value, bool):
            return _number(about, value, source)
        case Kind.FLAG, bool():
            return value
        case ((Kind.TEXT | Kind.PATH | Kind.CHOICE), str()):
            return _from_text(about, value, source)
        case Kind.NAMES, list() if all(isinstance(item, str) for item in value):
            return _names(about, value, source)
        case Kind.REPEATED, list() if all(isinstance(item, str) for item in value):
            return tuple(value)
        case _:
            raise Unusable(f"{source} must be {_shapes[about.kind]}.")


_shapes: Final = {
    Kind.TEXT: "a text in quotes",
    Kind.PATH: "a path in quotes",
    Kind.CHOICE: "a text in quotes",
    Kind.PORT: "a number",
    Kind.COUNT: "a number",
    Kind.FLAG: "true or false",
    Kind.NAMES: "a list of texts",
    Kind.REPEATED: "a list of texts",
}


def account_from_table(name: str, table: Mapping[str, Any], source: str) -> AccountEntry:
    """`[accounts.NAME]` of the file, or the body of `PUT /accounts/NAME`."""
    defaults = {item.name: item.default for item in dataclasses.fields(Account)}
    del defaults["name"]
    keys: tuple[str, ...] = ()
    options: dict[str, bool | int | str] = {}
    for key, value in table.items():
        if key not in defaults:
            raise _unknown(key, list(defaults), source)
        where = f'{source}: "{key}"'
        if key == "keys":
            if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
                raise Unusable(f"{where} must be a list of one or two keys.")
            keys = tuple(value)
        elif key == "kind":
            options[key] = _choice(account_kinds, str(value), where)
        elif key == "sku":
            options[key] = _choice(account_skus, str(value), where)
        elif isinstance(defaults[key], bool):
            options[key] = _boolean(value, where)
        else:
            options[key] = _days(value, where)
    entry = AccountEntry(keys, options)
    if "keys" in table:
        _check_account(name, entry, source)
    return entry


def without_effect(entry: AccountEntry) -> list[str]:
    """The options that were turned on and that nothing in this version heeds."""
    return [name for name in options_of_later_versions if entry.options.get(name)]


def _boolean(value: Any, source: str) -> bool:
    if not isinstance(value, bool):
        raise Unusable(f"{source} must be true or false.")
    return value


def _days(value: Any, source: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 365:
        raise Unusable(f"{source} must be a number of days from 0 to 365.")
    return value


def _namespace(name: str, table: Mapping[str, Any], source: str) -> BusNamespace:
    if not _namespace_name.fullmatch(name):
        raise Unusable(
            f'{source}: "{name}" is no namespace name; use 6 to 50 letters, digits and hyphens, '
            "beginning with a letter."
        )
    for key in table:
        if key not in ("tier", "rules"):
            raise _unknown(key, ["tier", "rules"], source)
    tier = _choice(bus_tiers, str(table.get("tier", "Standard")), f'{source}: "tier"')
    rules = table.get("rules", [])
    if not isinstance(rules, list) or not rules:
        raise Unusable(f'{source}: "rules" must be a list with at least one rule.')
    return BusNamespace(tier, tuple(_rule(rule, source) for rule in rules))


def _rule(rule: Any, source: str) -> BusRule:
    match rule:
        case {"name": str(name), "key": str(key), "rights": list(rights)} if name and key:
            if rights and all(right in bus_rights for right in rights):
                return BusRule(name, key, tuple(rights))
    raise Unusable(
        f'{source}: a rule is {{ name = "...", key = "...", rights = [...] }} with rights of '
        f"{', '.join(bus_rights)}."
    )
