"""Other ways to the same tables: the account in the host's name, the emulator's own address."""

import socket
from datetime import UTC, datetime, timedelta
from email.utils import formatdate

import pytest
from azure.data.tables import TableServiceClient

from .process import Process
from .serving import Client, Serving, account, entity_path, sign


def test_the_account_in_the_hosts_name(client: Client, table: str):
    client.insert(table, "p", "r", a=1)
    host = f"{account}.table.localhost:{client.serving.port}"

    def send(method: str, path: str):
        headers = {
            "Host": host,
            "x-ms-version": "2019-02-02",
            "x-ms-date": formatdate(usegmt=True),
            "Accept": "application/json;odata=fullmetadata",
        }
        headers["Authorization"] = sign(method, f"/{path}", "", headers)
        client._connection.request(method, f"/{path}", None, headers)
        answer = client._connection.getresponse()
        return answer.status, answer.read().decode()

    status, body = send("GET", entity_path(table, "p", "r"))
    assert status == 200
    assert f"http://{host}/{table}(PartitionKey='p',RowKey='r')" in body
    assert send("GET", "Tables")[0] == 200


def test_the_emulators_own_address(tmp_path):
    """`UseDevelopmentStorage=true` stands for port 10002 and the key that everybody knows."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", 10002))
        except OSError:
            pytest.skip("port 10002 is taken")
    process = Process(tmp_path / "data", port=10002).start()
    try:
        with TableServiceClient.from_connection_string("UseDevelopmentStorage=true") as service:
            service.create_table("Emulated")
            assert [each.name for each in service.list_tables()] == ["Emulated"]
    finally:
        assert process.stop() == 0


def test_continuation_tokens_survive_a_restart(tmp_path):
    process = Process(tmp_path / "data").start()
    try:
        client = Client(Serving(process.port))
        assert client.send("POST", "Tables", body={"TableName": "Paged"}).status == 201
        for n in range(5):
            assert client.insert("Paged", "it's", f"{n}").status == 201
        page = client.filtered("Paged", "", "$top=2")
        client.close()
        assert process.stop() == 0
        process.start()
        partition = page.headers["x-ms-continuation-nextpartitionkey"]
        row = page.headers["x-ms-continuation-nextrowkey"]
        client = Client(Serving(process.port))
        rest = client.filtered("Paged", "", f"NextPartitionKey={partition}&NextRowKey={row}")
        assert [each["RowKey"] for each in rest.json["value"]] == ["2", "3", "4"]
        client.close()
    finally:
        assert process.stop() == 0


def test_etags_go_on_rising_after_a_restart(tmp_path):
    process = Process(tmp_path / "data").start()
    try:
        client = Client(Serving(process.port))
        client.send("POST", "Tables", body={"TableName": "Stamps"})
        first = client.insert("Stamps", "p", "r").headers["etag"]
        client.close()
        assert process.stop() == 0
        process.start()
        client = Client(Serving(process.port))
        path = entity_path("Stamps", "p", "r")
        second = client.send("PUT", path, body={}, headers={"If-Match": first})
        assert second.status == 204
        assert second.headers["etag"] > first
        stamp = client.get("Stamps", "p", "r").json["Timestamp"]
        assert abs(datetime.fromisoformat(stamp) - datetime.now(UTC)) < timedelta(minutes=5)
        client.close()
    finally:
        assert process.stop() == 0
