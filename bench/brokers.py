"""The brokers that the bus is compared with, each started fresh on free ports and ended."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.peers import Missing, _cache, _end, _wait_for, free_port

artemis_version: Final = "2.31.2"
_rabbit_programs: Final = Path("/usr/lib/rabbitmq/bin")
_maven_seconds_max: Final = 300


class Broker(NamedTuple):
    name: str
    port: int
    process: subprocess.Popen[bytes]
    login: tuple[str, ...]
    """As the load client takes it."""
    prefix: str = ""
    """Of a queue's address."""


@contextmanager
def etagere(queues: Sequence[str], *arguments: str) -> Iterator[Broker]:
    """This server, durable on its embedded store."""
    with tempfile.TemporaryDirectory(prefix="etagere-bench-") as folder:
        config = Path(folder) / "Config.json"
        named: list[dict[str, Any]] = [{"Name": name, "Properties": {}} for name in queues]
        namespace = {"Name": "sbemulatorns", "Queues": named, "Topics": []}
        config.write_text(json.dumps({"UserConfig": {"Namespaces": [namespace]}}))
        process = subprocess.Popen(
            [
                sys.executable, "-m", "etagere", "serve", "--data", f"{folder}/data",
                "--ready-json", "--services", "bus", "--bus-config", str(config),
                "--amqp-port=0", "--amqps-port=0", "--bus-admin-port=0", "--admin-port=0",
                *arguments,
            ],
            stdout=subprocess.PIPE,
        )  # fmt: skip
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise Missing("etagere did not start")
        port = int(json.loads(line)["amqp"].rpartition(":")[2])
        login = ("user=RootManageSharedAccessKey", "password=SAS_KEY_VALUE")
        try:
            yield Broker("etagere", port, process, login)
        finally:
            _end(process)


@contextmanager
def rabbitmq(queues: Sequence[str]) -> Iterator[Broker]:
    """Debian's, with its AMQP 1.0 plugin.  Queues named `quorum...` are quorum queues."""
    server = _rabbit_programs / "rabbitmq-server"
    if not server.exists():
        raise Missing("RabbitMQ is not installed (Debian: rabbitmq-server)")
    mapper = next(Path("/usr/lib/erlang").glob("erts-*/bin/epmd"), None)
    if mapper is None:
        raise Missing("Erlang has no epmd")
    port, mapper_port = free_port(), free_port()
    with tempfile.TemporaryDirectory(prefix="rabbitmq-bench-") as folder:
        root = Path(folder)
        (root / "definitions.json").write_text(json.dumps(_rabbit_definitions(queues)))
        (root / "plugins").write_text("[rabbitmq_amqp1_0].\n")
        (root / "rabbitmq.conf").write_text(
            f"listeners.tcp.1 = 127.0.0.1:{port}\nload_definitions = {folder}/definitions.json\n"
            "log.console = false\nlog.file.level = warning\n"
        )
        environment = {
            **os.environ,
            "HOME": folder,
            "ERL_EPMD_PORT": str(mapper_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"bench{port}@localhost",
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": f"{folder}/data",
            "RABBITMQ_LOG_BASE": f"{folder}/log",
            "RABBITMQ_CONFIG_FILE": f"{folder}/rabbitmq.conf",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{folder}/plugins",
            "RABBITMQ_CONF_ENV_FILE": f"{folder}/none",
        }
        quiet: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        names = subprocess.Popen([str(mapper), "-port", str(mapper_port)], env=environment, **quiet)
        try:
            process = subprocess.Popen([str(server)], env=environment, **quiet)
            try:
                _wait_for(f"amqp://127.0.0.1:{port}/", 60)
                yield Broker(
                    "RabbitMQ", port, process, ("user=bench", "password=bench"), "/amq/queue/"
                )
            finally:
                _end(process)
        finally:
            _end(names)


def _rabbit_definitions(queues: Sequence[str]) -> dict[str, Any]:
    return {
        "users": [{"name": "bench", "password": "bench", "tags": "administrator"}],
        "vhosts": [{"name": "/"}],
        "permissions": [
            {"user": "bench", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}
        ],
        "queues": [
            {
                "name": name, "vhost": "/", "durable": True, "auto_delete": False,
                "arguments": {"x-queue-type": "quorum" if name.startswith("quorum") else "classic"},
            }
            for name in queues
        ],
    }  # fmt: skip


@contextmanager
def artemis(queues: Sequence[str]) -> Iterator[Broker]:
    """Embedded in a Java program of a few lines, its libraries fetched once by Maven."""
    libraries = _artemis_libraries()
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="artemis-bench-") as folder:
        source = Path(__file__).parent / "Artemis.java"
        process = subprocess.Popen(
            [
                "java", "-Xmx1g", "-cp", f"{libraries}/*", str(source), str(port), folder, *queues,
            ],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            _wait_for(f"amqp://127.0.0.1:{port}/", 60)
            yield Broker("Artemis", port, process, ())
        finally:
            _end(process)


def _artemis_libraries() -> Path:
    libraries = _cache / f"artemis-{artemis_version}"
    if (libraries / "complete").exists():
        return libraries
    for program in ("mvn", "java", "javac"):
        if shutil.which(program) is None:
            raise Missing(f"Artemis needs {program}")
    libraries.mkdir(parents=True, exist_ok=True)
    parts = "".join(
        f"<dependency><groupId>org.apache.activemq</groupId><artifactId>{name}</artifactId>"
        f"<version>{artemis_version}</version></dependency>"
        for name in ("artemis-server", "artemis-amqp-protocol")
    )
    project = libraries / "pom.xml"
    project.write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>bench</groupId>"
        "<artifactId>bench</artifactId><version>1</version>"
        f"<dependencies>{parts}</dependencies></project>"
    )
    command = ["mvn", "-q", "-B", "-f", str(project), "dependency:copy-dependencies"]
    try:
        subprocess.run(
            [*command, f"-DoutputDirectory={libraries}"],
            check=True, capture_output=True, timeout=_maven_seconds_max,
        )  # fmt: skip
    except (subprocess.SubprocessError, OSError) as error:
        raise Missing(f"Maven could not fetch Artemis: {error}") from error
    (libraries / "complete").touch()
    return libraries
