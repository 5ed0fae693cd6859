"""Static websites, by the host name that they have."""

import http.client

import pytest

from .serving import RawClient, Reply, Server


def visit(server: Server, path: str, method: str = "GET", **headers: str) -> Reply:
    client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    host = f"devstoreaccount1.z6.web.localhost:{server.port}"
    client.request(method, path, headers={"Host": host, **headers})
    reply = Reply(client.getresponse())
    client.close()
    return reply


def configure(raw: RawClient, inner: str) -> None:
    body = (
        "<StorageServiceProperties><StaticWebsite><Enabled>true</Enabled>"
        f"{inner}</StaticWebsite></StorageServiceProperties>"
    )
    assert raw("PUT", "/", body, restype="service", comp="properties").status == 202


@pytest.fixture
def site(server: Server, raw: RawClient) -> Server:
    raw("PUT", "/$web", restype="container")
    for name in ("index.html", "docs/index.html", "404.html", "a.txt"):
        raw.put_blob(f"/$web/{name}", name.encode(), Content_Type="text/html")
    return server


def test_pages_and_indexes(site: Server, raw: RawClient) -> None:
    configure(raw, "<IndexDocument>index.html</IndexDocument>")
    assert visit(site, "/").text == "index.html"
    assert visit(site, "/docs/").text == "docs/index.html"
    page = visit(site, "/a.txt?comp=list&x=y")
    assert (page.status, page.text, page.headers["content-type"]) == (200, "a.txt", "text/html")
    assert visit(site, "/a.txt", **{"If-None-Match": page.etag}).status == 304
    assert visit(site, "/a.txt", Range="bytes=0-0").status == 206
    assert visit(site, "/a.txt", "HEAD").headers["content-length"] == "5"
    assert visit(site, "/nothing").status == 404
    assert visit(site, "/a.txt", "DELETE").status == 405
    assert raw("HEAD", "/$web/a.txt").status == 200


def test_what_is_shown_instead(site: Server, raw: RawClient) -> None:
    configure(raw, "<ErrorDocument404Path>404.html</ErrorDocument404Path>")
    missing = visit(site, "/nothing")
    assert (missing.status, missing.text) == (404, "404.html")
    configure(raw, "<DefaultIndexDocumentPath>index.html</DefaultIndexDocumentPath>")
    missing = visit(site, "/any/route")
    assert (missing.status, missing.text) == (200, "index.html")


def test_a_document_that_is_shown_instead_is_shown_whole(site: Server, raw: RawClient) -> None:
    """What a browser asks of a file that is missing says nothing about the error document."""
    configure(raw, "<ErrorDocument404Path>404.html</ErrorDocument404Path>")
    etag = raw("HEAD", "/$web/404.html").etag
    for headers in (
        {"Range": "bytes=0-2"},
        {"Range": "bytes=99-"},
        {"If-None-Match": etag},
        {"If-Match": '"0x1"'},
    ):
        missing = visit(site, "/nothing", **headers)
        assert (missing.status, missing.text) == (404, "404.html"), headers
        assert "content-range" not in missing.headers
    configure(raw, "<DefaultIndexDocumentPath>index.html</DefaultIndexDocumentPath>")
    etag = raw("HEAD", "/$web/index.html").etag
    assert visit(site, "/any/route", **{"If-None-Match": etag}).status == 304
    assert visit(site, "/any/route", Range="bytes=0-2").status == 206


def test_a_site_that_is_not_enabled(site: Server) -> None:
    assert visit(site, "/index.html").status == 404


def test_the_ranges_and_conditions_of_pages(site: Server, raw: RawClient) -> None:
    configure(raw, "<IndexDocument>index.html</IndexDocument>")
    page = visit(site, "/a.txt")
    for headers, status in (
        ({"If-Match": '"0x1"'}, 412),
        ({"If-Match": page.etag}, 200),
        ({"If-Modified-Since": page.headers["last-modified"]}, 304),
        ({"If-Unmodified-Since": page.headers["last-modified"]}, 200),
        ({"Range": "bytes=2-"}, 206),
        ({"Range": "bytes=5-"}, 416),
    ):
        assert visit(site, "/a.txt", **headers).status == status, headers
    assert visit(site, "/a.txt", Range="bytes=5-").headers["content-range"] == "bytes */5"
    assert visit(site, "/a.txt", Range="bytes=2-").text == "txt"


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE", "PATCH", "OPTIONS", "MERGE"])
def test_pages_are_only_read(site: Server, raw: RawClient, method: str) -> None:
    configure(raw, "<IndexDocument>index.html</IndexDocument>")
    asked = {"Origin": "http://a", "Access-Control-Request-Method": "GET", "Content-Length": "0"}
    reply = visit(site, "/a.txt", method, **asked)
    assert (reply.status, reply.code) == (405, "UnsupportedHttpVerb")
    assert raw("GET", "/$web/a.txt").text == "a.txt"


def test_websites_have_no_rules_for_other_origins(site: Server, raw: RawClient) -> None:
    rule = (
        "<StorageServiceProperties><Cors><CorsRule><AllowedOrigins>*</AllowedOrigins>"
        "<AllowedMethods>GET</AllowedMethods><AllowedHeaders>*</AllowedHeaders>"
        "<ExposedHeaders>*</ExposedHeaders><MaxAgeInSeconds>7</MaxAgeInSeconds>"
        "</CorsRule></Cors></StorageServiceProperties>"
    )
    configure(raw, "<IndexDocument>index.html</IndexDocument>")
    assert raw("PUT", "/", rule, restype="service", comp="properties").status == 202
    seen = raw("GET", "/$web/a.txt", headers={"Origin": "http://a"})
    assert seen.headers["access-control-allow-origin"] == "*"
    page = visit(site, "/a.txt", Origin="http://a")
    assert page.status == 200
    assert not [name for name in page.headers if name.startswith("access-control")]
    preflight = {"Origin": "http://a", "Access-Control-Request-Method": "GET"}
    assert visit(site, "/a.txt", "OPTIONS", **preflight).status == 405
