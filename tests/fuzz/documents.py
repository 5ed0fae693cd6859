"""Bodies: the documents that operations take, some of them hostile, and how any of them is bent."""

from base64 import b64encode
from random import Random

_policies = (
    "<SignedIdentifiers><SignedIdentifier><Id>policy</Id><AccessPolicy>"
    "<Start>2020-01-01T00:00:00Z</Start><Expiry>2099-01-01T00:00:00Z</Expiry>"
    "<Permission>rw</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>"
)
_properties = (
    "<StorageServiceProperties><Logging><Version>1.0</Version><Delete>true</Delete>"
    "<Read>true</Read><Write>true</Write><RetentionPolicy><Enabled>true</Enabled><Days>7</Days>"
    "</RetentionPolicy></Logging><HourMetrics><Version>1.0</Version><Enabled>false</Enabled>"
    "<RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></HourMetrics><Cors><CorsRule>"
    "<AllowedOrigins>*</AllowedOrigins><AllowedMethods>GET,PUT</AllowedMethods>"
    "<MaxAgeInSeconds>5</MaxAgeInSeconds><ExposedHeaders>*</ExposedHeaders>"
    "<AllowedHeaders>*</AllowedHeaders></CorsRule></Cors><DefaultServiceVersion>2020-10-02"
    "</DefaultServiceVersion><DeleteRetentionPolicy><Enabled>true</Enabled><Days>3</Days>"
    "</DeleteRetentionPolicy><StaticWebsite><Enabled>true</Enabled>"
    "<IndexDocument>index.html</IndexDocument></StaticWebsite></StorageServiceProperties>"
)
_properties_of_all = (
    "<StorageServiceProperties><Logging><Version>1.0</Version><Delete>true</Delete>"
    "<Read>false</Read><Write>false</Write><RetentionPolicy><Enabled>false</Enabled>"
    "</RetentionPolicy></Logging><Cors><CorsRule><AllowedOrigins>http://a.example</AllowedOrigins>"
    "<AllowedMethods>GET</AllowedMethods><MaxAgeInSeconds>5</MaxAgeInSeconds>"
    "<ExposedHeaders>x-ms-*</ExposedHeaders><AllowedHeaders>a,b</AllowedHeaders></CorsRule></Cors>"
    "</StorageServiceProperties>"
)
_entity = (
    '{"PartitionKey":"p","RowKey":"r","a":1,"b":"text","c@odata.type":"Edm.Int64","c":"5",'
    '"d@odata.type":"Edm.Guid","d":"11111111-1111-1111-1111-111111111111",'
    '"e@odata.type":"Edm.Binary","e":"AAAA","f@odata.type":"Edm.DateTime",'
    '"f":"2025-01-01T00:00:00Z","g":1.5,"h":true}'
)
_query = (
    "<QueryRequest><QueryType>SQL</QueryType><Expression>SELECT * from BlobStorage"
    "</Expression></QueryRequest>"
)
_change_set = (
    "--batch_1\r\nContent-Type: multipart/mixed; boundary=changeset_1\r\n\r\n"
    "--changeset_1\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n"
    "POST http://127.0.0.1/devstoreaccount1/Shelf HTTP/1.1\r\n"
    "Content-Type: application/json\r\n\r\n"
    '{"PartitionKey":"p","RowKey":"s"}\r\n'
    "--changeset_1\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n"
    "DELETE http://127.0.0.1/Shelf(PartitionKey='p',RowKey='r') HTTP/1.1\r\nIf-Match: *\r\n\r\n\r\n"
    "--changeset_1--\r\n--batch_1--\r\n"
)
_part = "--batch_1\r\nContent-Type: application/http\r\nContent-ID: 0\r\n\r\n"
_deletions = (
    f"{_part}DELETE /devstoreaccount1/shelf/block?%s HTTP/1.1\r\nContent-Length: 0\r\n\r\n"
    f"{_part}DELETE /devstoreaccount1/shelf/missing?%s HTTP/1.1\r\n\r\n--batch_1--\r\n"
)
_tiers = (
    f"{_part}PUT /devstoreaccount1/shelf/listed?comp=tier&%s HTTP/1.1\r\n"
    "x-ms-access-tier: Cool\r\nContent-Length: 0\r\n\r\n--batch_1--\r\n"
)


properties = _properties.encode()


def block_id(number: int) -> str:
    return b64encode(f"id{number:02}".encode()).decode()


def documents(signature: str) -> tuple[bytes, ...]:
    """What an operation may take, none of it bent."""
    listed = "".join(f"<Latest>{block_id(number)}</Latest>" for number in range(3))
    return tuple(
        text.encode()
        for text in (
            f"<?xml version='1.0'?><BlockList>{listed}</BlockList>",
            "<BlockList/>",
            f"<BlockList><Committed>{block_id(1)}</Committed></BlockList>",
            "<Tags><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tags>",
            _policies,
            _properties,
            "<QueueMessage><MessageText>text</MessageText></QueueMessage>",
            "<KeyInfo><Start>2025-10-01T00:00:00Z</Start><Expiry>2025-10-12T00:00:00Z</Expiry></KeyInfo>",
            _entity,
            '{"TableName":"Other"}',
            '{"a":2}',
            _change_set,
            _deletions % (signature, signature),
            _query,
            _properties_of_all,
            _tiers % signature,
        )
    )


hostile = (
    b"",
    b"\0",
    b"<",
    b"<a>" * 5000,
    b"<a b='" + b"x" * 70_000 + b"'/>",
    b"<!DOCTYPE a [<!ENTITY b 'c'>]><BlockList>&b;</BlockList>",
    b"<!DOCTYPE a SYSTEM 'file:///etc/passwd'><Tags/>",
    b"<?xml version='1.0' encoding='utf-16'?><BlockList/>",
    b"<?xml version='1.0' encoding='x'?><Tags/>",
    "<?xml version='1.0' encoding='utf-16'?><Tags/>".encode("utf-16"),
    b"\xef\xbb\xbf<BlockList/>",
    b"<Tags xmlns='x'><TagSet/></Tags>",
    b"<Tags><TagSet><Tag><Key>\xff</Key></Tag></TagSet></Tags>",
    b"<QueueMessage><MessageText>&#0;&#xD800;</MessageText></QueueMessage>",
    b"<QueueMessage><MessageText>&#xFFFE;&#x1F600;</MessageText></QueueMessage>",
    b"<QueueMessage><MessageText><b/></MessageText></QueueMessage>",
    b"[" * 20_000,
    b'{"a":' * 5000,
    b'{"a":1,"a":2}',
    b'{"PartitionKey":1}',
    b'{"PartitionKey":"\\ud800","RowKey":"r"}',
    b'{"PartitionKey":"p","RowKey":"r","a":1e999}',
    b'{"PartitionKey":"p","RowKey":"r","a":' + b"9" * 5000 + b"}",
    b'{"PartitionKey":"p","RowKey":"r","a@odata.type":"Edm.DateTime","a":"0000-00-00"}',
    b'{"PartitionKey":"p","RowKey":"r","' + b"n" * 300 + b'":1}',
    b"NaN",
    b"<StorageServiceProperties><DeleteRetentionPolicy><Enabled>true</Enabled><Days>"
    + b"9" * 5000
    + b"</Days></DeleteRetentionPolicy></StorageServiceProperties>",
    b'{"PartitionKey":"p","RowKey":"r","c@odata.type":"Edm.Int64","c":"' + b"9" * 5000 + b'"}',
    b'"',
    b"--batch_1\r\n\r\n--batch_1--",
    b"--batch_1",
    b"--batch_1\r\nContent-Type: multipart/mixed; boundary=changeset_1\r\n\r\n--changeset_1--",
    b"--batch_1\r\nContent-Type: application/http\r\n\r\nGET / HTTP/1.1\r\n\r\n--batch_1--",
    bytes(512),
    bytes(range(256)) * 4,
)
_pieces = (
    b"<", b">", b"&", b"&#0;", b"&amp;", b"]]>", b"<!--", b"<![CDATA[", b'"', b"'", b"{", b"}",
    b"[", b"]", b",", b":", b"\\u0000", b"\\ud800", b"\xff", b"\xed\xa0\x80", b"\xf0\x9f\x98\x80",
    b"\r\n",
    b"\r\n\r\n", b"--", b"--batch_1", b"--changeset_1", b"0", b"-1", b"9" * 40, b"\0", b"e" * 300,
    b"HTTP/1.1", b"If-Match: *\r\n", b"@odata.type", b"Edm.Int64", b"null",
)  # fmt: skip


def bend(data: bytes, chance: Random) -> bytes:
    """Some bytes changed, moved, doubled or lost."""
    bent = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 5))):
        at = chance.randrange(len(bent) + 1)
        match chance.randrange(6):
            case 0:
                bent[at:at] = chance.choice(_pieces)
            case 1:
                del bent[at : at + chance.choice((1, 5, 50))]
            case 2:
                bent[at : at + 1] = chance.randbytes(1)
            case 3:
                bent[at:at] = bent[at : at + 80] * chance.randrange(1, 4)
            case 4:
                del bent[at:]
            case _:
                bent[at : at + 4] = chance.choice(_pieces)
    return bytes(bent)
