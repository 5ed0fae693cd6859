"""Service properties as XML, both ways (Azure: 'Set Blob/Queue/Table/File Service Properties')."""

from collections.abc import Callable
from typing import Final, TypeVar

from etagere.base.errors import Refused
from etagere.frontends.common import versions, xml
from etagere.frontends.common.xml import Node
from etagere.services.common.service_properties import (
    CorsRule,
    Logging,
    Metrics,
    Retention,
    ServiceProperties,
    ServicePropertiesChange,
    StaticWebsite,
)

T = TypeVar("T")

retention_days_max: Final = 365
cors_rules_max: Final = 5
cors_bytes_max: Final = 2048
cors_literal_headers_max: Final = 64
cors_prefixed_headers_max: Final = 2
cors_origins_max: Final = 64
cors_value_chars_max: Final = 256
number_chars_max: Final = 10
"""More than any number that is allowed has: int() of a long text is slow, or refuses."""
cors_age_seconds_max: Final = 2**31 - 1
_cors_methods: Final = frozenset(
    {"DELETE", "GET", "HEAD", "MERGE", "PATCH", "POST", "OPTIONS", "PUT"}
)

common_elements: Final = frozenset({"Logging", "HourMetrics", "MinuteMetrics", "Cors"})
blob_elements: Final = common_elements | {
    "DefaultServiceVersion",
    "DeleteRetentionPolicy",
    "StaticWebsite",
}


def decode(data: bytes, allowed: frozenset[str]) -> ServicePropertiesChange:
    """What a Set asks for; elements that are not there stay as they are."""
    root = xml.parse(data, "StorageServiceProperties")
    seen: set[str] = set()
    for node in root.children:
        if node.name not in allowed or node.name in seen:
            raise xml.invalid_document(f"The element {node.name} is not expected here.")
        seen.add(node.name)
    return ServicePropertiesChange(
        logging=_optional(root, "Logging", _logging),
        hour_metrics=_optional(root, "HourMetrics", _metrics),
        minute_metrics=_optional(root, "MinuteMetrics", _metrics),
        cors=_optional(root, "Cors", _cors),
        default_version=_optional(root, "DefaultServiceVersion", _default_version),
        delete_retention=_optional(root, "DeleteRetentionPolicy", _retention),
        static_website=_optional(root, "StaticWebsite", _website),
    )


def _optional(root: Node, name: str, read: Callable[[Node], T]) -> T | None:
    node = root.child(name)
    return None if node is None else read(node)


def _required(node: Node, name: str) -> Node:
    found = node.child(name)
    if found is None:
        raise Refused("MissingRequiredXmlNode", {"XmlNodeName": name})
    return found


def _boolean(node: Node, name: str) -> bool:
    text = _required(node, name).text.strip().lower()
    if text not in ("true", "false"):
        raise xml.invalid_node(name, text, "The value must be true or false.")
    return text == "true"


def _retention(node: Node) -> Retention:
    enabled = _boolean(node, "Enabled")
    days = node.text_of("Days")
    if enabled and days is None:
        raise Refused("MissingRequiredXmlNode", {"XmlNodeName": "Days"})
    return Retention(
        enabled=enabled,
        days=_days(days) if enabled and days is not None else 0,
        allow_permanent_delete=(node.text_of("AllowPermanentDelete") or "").lower() == "true",
    )


def _days(text: str) -> int:
    days = int(text) if text.isdecimal() and len(text) <= number_chars_max else 0
    if not 1 <= days <= retention_days_max:
        raise xml.invalid_node("Days", text, "The value must be between 1 and 365.")
    return days


def _logging(node: Node) -> Logging:
    return Logging(
        version=_required(node, "Version").text,
        delete=_boolean(node, "Delete"),
        read=_boolean(node, "Read"),
        write=_boolean(node, "Write"),
        retention=_retention(_required(node, "RetentionPolicy")),
    )


def _metrics(node: Node) -> Metrics:
    enabled = _boolean(node, "Enabled")
    has_apis = node.child("IncludeAPIs") is not None
    if enabled and not has_apis:
        raise Refused("MissingRequiredXmlNode", {"XmlNodeName": "IncludeAPIs"})
    retention = node.child("RetentionPolicy")
    return Metrics(
        version=_required(node, "Version").text,
        enabled=enabled,
        include_apis=_boolean(node, "IncludeAPIs") if has_apis else None,
        retention=Retention() if retention is None else _retention(retention),
    )


def _default_version(node: Node) -> str:
    try:
        return versions.choose(node.text.strip(), strict=False)
    except Refused:
        raise xml.invalid_node("DefaultServiceVersion", node.text) from None


def _website(node: Node) -> StaticWebsite:
    index = node.text_of("IndexDocument")
    default_path = node.text_of("DefaultIndexDocumentPath")
    if index and default_path:
        raise xml.invalid_document(
            "IndexDocument and DefaultIndexDocumentPath are mutually exclusive."
        )
    return StaticWebsite(
        enabled=_boolean(node, "Enabled"),
        index_document=index,
        default_index_path=default_path,
        error_document=node.text_of("ErrorDocument404Path"),
    )


def _cors(node: Node) -> tuple[CorsRule, ...]:
    rules = tuple(_cors_rule(rule) for rule in node.all("CorsRule"))
    if len(rules) > cors_rules_max:
        raise xml.invalid_document("At most five CORS rules can be specified.")
    size = sum(
        len(text)
        for rule in rules
        for text in (*rule.origins, *rule.methods, *rule.allowed_headers, *rule.exposed_headers)
    )
    if size > cors_bytes_max:
        raise xml.invalid_document("The CORS rules are larger than 2 KiB.")
    return rules


def _cors_rule(node: Node) -> CorsRule:
    origins = _list(node, "AllowedOrigins")
    methods = tuple(method.upper() for method in _list(node, "AllowedMethods"))
    allowed = _list(node, "AllowedHeaders")
    exposed = _list(node, "ExposedHeaders")
    age = _required(node, "MaxAgeInSeconds").text.strip()
    if not origins or len(origins) > cors_origins_max:
        raise xml.invalid_document("AllowedOrigins must name 1 to 64 origins.")
    if not methods or not _cors_methods.issuperset(methods):
        raise xml.invalid_document("AllowedMethods has a method that is not supported.")
    for names in (allowed, exposed):
        prefixed = sum(name.endswith("*") for name in names)
        if prefixed > cors_prefixed_headers_max or len(names) - prefixed > cors_literal_headers_max:
            raise xml.invalid_document("Too many headers in a CORS rule.")
    if any(len(text) > cors_value_chars_max for text in (*origins, *allowed, *exposed)):
        raise xml.invalid_document("A value in a CORS rule is longer than 256 characters.")
    if not age.isdecimal() or len(age) > number_chars_max or int(age) > cors_age_seconds_max:
        raise xml.invalid_document("MaxAgeInSeconds must be a number that is not negative.")
    return CorsRule(origins, methods, allowed, exposed, int(age))


def _list(node: Node, name: str) -> tuple[str, ...]:
    text = _required(node, name).text
    return tuple(item.strip() for item in text.split(",") if item.strip())


def encode(properties: ServiceProperties, allowed: frozenset[str]) -> bytes:
    """The document, elements in the order that the service returns them."""
    parts = [xml.declaration, "<StorageServiceProperties>"]
    if "Logging" in allowed:
        parts.append(_logging_xml(properties.logging))
    parts.append(_metrics_xml("HourMetrics", properties.hour_metrics))
    parts.append(_metrics_xml("MinuteMetrics", properties.minute_metrics))
    parts.append(_cors_xml(properties.cors))
    if "DefaultServiceVersion" in allowed:
        parts.append(xml.element("DefaultServiceVersion", properties.default_version))
    if "DeleteRetentionPolicy" in allowed:
        parts.append(_retention_xml("DeleteRetentionPolicy", properties.delete_retention))
    if "StaticWebsite" in allowed:
        parts.append(_website_xml(properties.static_website))
    parts.append("</StorageServiceProperties>")
    return "".join(parts).encode()


def _flag(name: str, value: bool) -> str:
    return f"<{name}>{'true' if value else 'false'}</{name}>"


def _retention_xml(name: str, retention: Retention) -> str:
    inner = _flag("Enabled", retention.enabled)
    if retention.enabled:
        inner += xml.element("Days", str(retention.days))
        if name == "DeleteRetentionPolicy" and retention.allow_permanent_delete:
            inner += _flag("AllowPermanentDelete", value=True)
    return f"<{name}>{inner}</{name}>"


def _logging_xml(logging: Logging) -> str:
    return (
        "<Logging>"
        + xml.element("Version", logging.version)
        + _flag("Read", logging.read)
        + _flag("Write", logging.write)
        + _flag("Delete", logging.delete)
        + _retention_xml("RetentionPolicy", logging.retention)
        + "</Logging>"
    )


def _metrics_xml(name: str, metrics: Metrics) -> str:
    inner = xml.element("Version", metrics.version) + _flag("Enabled", metrics.enabled)
    if metrics.enabled and metrics.include_apis is not None:
        inner += _flag("IncludeAPIs", metrics.include_apis)
    inner += _retention_xml("RetentionPolicy", metrics.retention)
    return f"<{name}>{inner}</{name}>"


def _cors_xml(rules: tuple[CorsRule, ...]) -> str:
    if not rules:
        return "<Cors />"
    return "<Cors>" + "".join(_cors_rule_xml(rule) for rule in rules) + "</Cors>"


def _cors_rule_xml(rule: CorsRule) -> str:
    return (
        "<CorsRule>"
        + xml.element("AllowedOrigins", ",".join(rule.origins))
        + xml.element("AllowedMethods", ",".join(rule.methods))
        + xml.element("MaxAgeInSeconds", str(rule.max_age_seconds))
        + xml.element("ExposedHeaders", ",".join(rule.exposed_headers))
        + xml.element("AllowedHeaders", ",".join(rule.allowed_headers))
        + "</CorsRule>"
    )


def _website_xml(website: StaticWebsite) -> str:
    inner = _flag("Enabled", website.enabled)
    if website.enabled:
        inner += xml.element("IndexDocument", website.index_document)
        inner += xml.element("DefaultIndexDocumentPath", website.default_index_path)
        inner += xml.element("ErrorDocument404Path", website.error_document)
    return f"<StaticWebsite>{inner}</StaticWebsite>"


def stats(last_sync: str) -> bytes:
    """Get Service Stats, as a live geo-replica answers it."""
    return (
        f"{xml.declaration}<StorageServiceStats><GeoReplication><Status>live</Status>"
        f"<LastSyncTime>{last_sync}</LastSyncTime></GeoReplication></StorageServiceStats>"
    ).encode()
