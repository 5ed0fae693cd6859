"""What holds for every test, and the JavaScript SDKs for those that drive them."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from etagere.testing import ServerProcess

# No result depends on how busy the machine is.
settings.register_profile(
    "etagere", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("etagere")


@pytest.fixture(scope="session", autouse=True)
def every_store_is_sound() -> Iterator[None]:
    """Whatever was tested, what a server leaves that ended as it was told to is checked."""
    stop = ServerProcess.stop

    def stop_and_check(server: ServerProcess) -> None:
        from etagere.app.check import faults_of

        was_running = server.process.poll() is None
        stop(server)
        given = list(server.process.args)
        if was_running and server.process.returncode == 0 and "--data" in given:
            directory = Path(given[given.index("--data") + 1])
            with ThreadPoolExecutor(1) as elsewhere:  # this one may have a running loop
                faults, _ = elsewhere.submit(faults_of, directory).result()
            assert faults == [], directory

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ServerProcess, "stop", stop_and_check)
        yield


@pytest.fixture
def small_disk_of(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Makes a file system of a size such as "16m"."""
    mounted: list[Path] = []

    def mount(size: str) -> Path:
        place = tmp_path / f"disk{len(mounted)}"
        place.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "etagere-test", str(place)]
        try:
            subprocess.run(command, capture_output=True, text=True, check=True)
        except FileNotFoundError:
            pytest.skip("mount(8) is missing")
        except subprocess.CalledProcessError as error:
            pytest.skip(f"mounting a tmpfs needs root: {error.stderr.strip()}")
        mounted.append(place)
        return place

    yield mount
    for place in mounted:
        # Lazily: a test that failed leaves files open.
        subprocess.run(["umount", "--lazy", str(place)], check=True)


javascript_packages = (
    "@azure/data-tables@13.3.2",
    "@azure/service-bus@7.9.5",
    "@azure/storage-blob@12.34.0",
    "@azure/storage-file-datalake@12.31.0",
    "@azure/storage-file-share@12.32.0",
    "@azure/storage-queue@12.32.0",
)
npm_seconds_max = 240


@pytest.fixture(scope="session")
def node_modules() -> Path:
    """Where the JavaScript SDKs are: in ETAGERE_NODE_MODULES, or installed once into the user's
    cache.  Without node, npm or npm's registry, tests that ask for this skip and say so."""
    if shutil.which("node") is None:
        pytest.skip("node is missing")
    given = os.environ.get("ETAGERE_NODE_MODULES")
    if given:
        return Path(given)
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is missing")
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    prefix = cache / "etagere" / "javascript-sdks"
    stamp = prefix / "installed"
    wanted = "\n".join(javascript_packages)
    if not stamp.exists() or stamp.read_text() != wanted:
        prefix.mkdir(parents=True, exist_ok=True)
        command = [npm, "install", "--prefix", str(prefix), "--no-save", "--ignore-scripts"]
        try:
            subprocess.run(
                [*command, "--no-audit", "--no-fund", *javascript_packages],
                check=True,
                capture_output=True,
                timeout=npm_seconds_max,
            )
        except (subprocess.SubprocessError, OSError) as error:
            pytest.skip(f"npm could not install the @azure packages: {error}")
        stamp.write_text(wanted)
    return prefix / "node_modules"
