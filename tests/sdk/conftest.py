"""Programs in Go and Java that drive their SDKs: built once for each version of their sources.

Each prints one line of JSON for each of its scenarios: its name, and how it failed or null.
"""

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from etagere.testing import ServerProcess

Outcomes = dict[str, str | None]

download_seconds_max = 240
build_seconds_max = 300
run_seconds_max = 100
account = (
    "DefaultEndpointsProtocol=http",
    "AccountName=devstoreaccount1",
    "AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==",
)
java_tools = ("java", "javac", "keytool", "mvn")


def cache(kind: str) -> Path:
    home = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    return home / "etagere" / kind


def digest(sources: Sequence[Path]) -> str:
    texts = [source.read_bytes() for source in sources]
    return hashlib.sha256(b"\0".join(texts)).hexdigest()[:16]


def download(command: Sequence[str], folder: Path, what: str) -> None:
    try:
        subprocess.run(
            command, cwd=folder, check=True, capture_output=True, timeout=download_seconds_max
        )
    except (subprocess.SubprocessError, OSError) as error:
        pytest.skip(f"{Path(command[0]).name} could not download {what}: {error}")


def build(command: Sequence[str], folder: Path) -> None:
    made = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=build_seconds_max, check=False
    )
    assert made.returncode == 0, made.stderr


@pytest.fixture(scope="session")
def built_go() -> Callable[[Path, str], Path]:
    """A module's folder and what it fetches -> its program."""

    def program(module: Path, what: str) -> Path:
        sources = [module / name for name in ("go.mod", "go.sum", "main.go")]
        name = module.name
        folder = cache("go") / f"{name}-{digest(sources)}"
        built = folder / name
        if built.exists():
            return built
        go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
        if go is None:
            pytest.skip("go is missing")
        folder.mkdir(parents=True, exist_ok=True)
        for source in sources:
            shutil.copy(source, folder)
        download([go, "mod", "download"], folder, what)
        build([go, "build", "-o", f"{name}.part", "."], folder)
        (folder / f"{name}.part").rename(built)
        return built

    return program


@pytest.fixture(scope="session")
def built_java() -> Callable[[Path, str], str]:
    """A source with a pom.xml beside it and what that fetches -> its class path.

    A pom.xml is only the list of what to fetch: javac compiles the one source.
    """

    def classes(source: Path, what: str) -> str:
        missing = [tool for tool in java_tools if shutil.which(tool) is None]
        if missing:
            pytest.skip(f"{' and '.join(missing)} missing: install a JDK and Maven")
        pom = source.with_name("pom.xml")
        # What Maven brings depends on the list alone, and takes the longest.
        library = cache("java") / f"library-{digest([pom])}"
        built = cache("java") / f"{source.parent.name}-{digest([pom, source])}"
        if not library.exists():
            part = library.with_suffix(".part")
            part.mkdir(parents=True, exist_ok=True)
            goal = ["dependency:copy-dependencies", f"-DoutputDirectory={part}"]
            download(["mvn", "-q", "-B", "-f", str(pom), *goal], part, what)
            part.rename(library)
        if not built.exists():
            compiled = built.with_suffix(".part")
            compiled.mkdir(parents=True, exist_ok=True)
            build(["javac", "-cp", f"{library}/*", "-d", str(compiled), str(source)], source.parent)
            compiled.rename(built)
        return f"{built}{os.pathsep}{library}/*"

    return classes


@pytest.fixture(scope="session")
def run_scenarios() -> Callable[[ServerProcess, Sequence[str | Path], dict[str, str]], Outcomes]:
    """What came of each scenario: nothing, or how it failed."""

    def run(
        server: ServerProcess, command: Sequence[str | Path], environment: dict[str, str]
    ) -> Outcomes:
        ran = subprocess.run(
            command,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=run_seconds_max,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        assert "Traceback" not in server.said
        lines = [json.loads(line) for line in ran.stdout.splitlines()]
        return {line["name"]: line["error"] for line in lines}

    return run


@pytest.fixture(scope="session")
def storage_connection() -> Callable[[ServerProcess], str]:
    def connection_string(server: ServerProcess) -> str:
        ends = [
            f"{name.title()}Endpoint={server.urls[name]}" for name in ("blob", "queue", "table")
        ]
        return ";".join((*account, *ends))

    return connection_string
