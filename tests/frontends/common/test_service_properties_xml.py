"""Service properties as XML (Azure: 'Set Blob Service Properties')."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etagere.base.errors import Refused
from etagere.frontends.common import service_properties_xml as properties_xml
from etagere.services.common.service_properties import (
    CorsRule,
    Logging,
    Metrics,
    Retention,
    ServiceProperties,
    StaticWebsite,
)

everything = properties_xml.blob_elements


def document(inner: str) -> bytes:
    return f"<StorageServiceProperties>{inner}</StorageServiceProperties>".encode()


retentions = st.one_of(
    st.just(Retention()),
    st.builds(Retention, enabled=st.just(value=True), days=st.integers(1, 365)),
)
names = st.from_regex(r"[a-z][a-z0-9-]{0,20}", fullmatch=True)
properties = st.builds(
    ServiceProperties,
    logging=st.builds(
        Logging, delete=st.booleans(), read=st.booleans(), write=st.booleans(), retention=retentions
    ),
    hour_metrics=st.one_of(
        st.just(Metrics()),
        st.builds(
            Metrics, enabled=st.just(value=True), include_apis=st.booleans(), retention=retentions
        ),
    ),
    minute_metrics=st.just(Metrics()),
    cors=st.lists(
        st.builds(
            CorsRule,
            origins=st.lists(names.map("https://{}".format), min_size=1, max_size=3).map(tuple),
            methods=st.sets(st.sampled_from(["GET", "PUT"]), min_size=1).map(tuple),
            allowed_headers=st.lists(names, max_size=3).map(tuple),
            exposed_headers=st.lists(names, max_size=3).map(tuple),
            max_age_seconds=st.integers(0, 1000),
        ),
        max_size=5,
    ).map(tuple),
    default_version=st.sampled_from([None, "2020-02-10"]),
    delete_retention=retentions,
    static_website=st.one_of(
        st.just(StaticWebsite()),
        st.builds(
            StaticWebsite,
            enabled=st.just(value=True),
            index_document=names,
            error_document=st.one_of(st.none(), names),
        ),
    ),
)


@given(properties)
def test_what_is_written_is_read_again(wanted: ServiceProperties) -> None:
    change = properties_xml.decode(properties_xml.encode(wanted, everything), everything)
    old = ServiceProperties(default_version=wanted.default_version)
    assert change.applied_to(old) == wanted


def test_what_is_left_out_stays() -> None:
    old = ServiceProperties(delete_retention=Retention(enabled=True, days=3))
    change = properties_xml.decode(document("<Cors />"), everything)
    assert change.applied_to(old) == old
    assert properties_xml.decode(document(""), everything).applied_to(old) == old


_rule = (
    "<CorsRule><AllowedOrigins>{}</AllowedOrigins><AllowedMethods>GET</AllowedMethods>"
    "<MaxAgeInSeconds>1</MaxAgeInSeconds><ExposedHeaders>{}</ExposedHeaders>"
    "<AllowedHeaders /></CorsRule>"
)


@pytest.mark.parametrize(
    ("inner", "code"),
    [
        ("<Unknown />", "InvalidXmlDocument"),
        ("<Cors /><Cors />", "InvalidXmlDocument"),
        ("<Cors>" + _rule.format("*", "") * 6 + "</Cors>", "InvalidXmlDocument"),
        ("<Cors>" + _rule.format("", "") + "</Cors>", "InvalidXmlDocument"),
        ("<Cors>" + _rule.format("*", "x" * 257) + "</Cors>", "InvalidXmlDocument"),
        ("<Cors>" + _rule.format("*", "a*,b*,c*") + "</Cors>", "InvalidXmlDocument"),
        ("<Cors>" + _rule.format("*", ",".join(f"h{n}" for n in range(65))) + "</Cors>",
         "InvalidXmlDocument"),
        ("<Cors>" + _rule.format("http://" + "x" * 240, ",".join("y" * 250 for _ in range(8)))
         + "</Cors>", "InvalidXmlDocument"),
        ("<DeleteRetentionPolicy><Enabled>true</Enabled></DeleteRetentionPolicy>",
         "MissingRequiredXmlNode"),
        ("<DeleteRetentionPolicy><Enabled>true</Enabled><Days>0</Days></DeleteRetentionPolicy>",
         "InvalidXmlNodeValue"),
        ("<DeleteRetentionPolicy><Enabled>true</Enabled><Days>366</Days></DeleteRetentionPolicy>",
         "InvalidXmlNodeValue"),
        ("<DeleteRetentionPolicy><Enabled>maybe</Enabled></DeleteRetentionPolicy>",
         "InvalidXmlNodeValue"),
        ("<DeleteRetentionPolicy />", "MissingRequiredXmlNode"),
        ("<HourMetrics><Version>1.0</Version><Enabled>true</Enabled></HourMetrics>",
         "MissingRequiredXmlNode"),
        ("<DefaultServiceVersion>2001-01-01</DefaultServiceVersion>", "InvalidXmlNodeValue"),
        (("<StaticWebsite><Enabled>true</Enabled><IndexDocument>a</IndexDocument>"
         "<DefaultIndexDocumentPath>b</DefaultIndexDocumentPath></StaticWebsite>"),
         "InvalidXmlDocument"),
    ],
)  # fmt: skip
def test_what_is_refused(inner: str, code: str) -> None:
    with pytest.raises(Refused, match=code):
        properties_xml.decode(document(inner), everything)


def test_elements_of_other_services_are_refused() -> None:
    inner = "<StaticWebsite><Enabled>false</Enabled></StaticWebsite>"
    with pytest.raises(Refused, match="InvalidXmlDocument"):
        properties_xml.decode(document(inner), properties_xml.common_elements)


@given(st.binary(max_size=300))
def test_any_bytes(data: bytes) -> None:
    code = None
    try:
        properties_xml.decode(data, everything)
    except Refused as refused:
        code = refused.code
    assert code in (
        None,
        "InvalidXmlDocument",
        "MissingRequiredXmlNode",
        "InvalidXmlNodeValue",
    )
