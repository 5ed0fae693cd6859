import os
import subprocess
import sys

import pytest

from etagere.kv.contract import StoreUnusable
from etagere.kv.engines.directory_lock import DirectoryLock


def test_the_second_is_told_where_and_who(tmp_path):
    with DirectoryLock(tmp_path / "data"):
        with pytest.raises(StoreUnusable) as refusal, DirectoryLock(tmp_path / "data"):
            pass
        assert str(refusal.value) == f"{tmp_path / 'data'}: in use by process {os.getpid()}"
    with DirectoryLock(tmp_path / "data"):
        pass


def test_it_ends_with_the_process(tmp_path):
    script = (
        "import os, sys\n"
        "from etagere.kv.engines.directory_lock import DirectoryLock\n"
        "DirectoryLock(sys.argv[1]).__enter__()\n"
        "print(os.getpid(), flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        pid = holder.stdout.readline().strip()
        with pytest.raises(StoreUnusable, match=f"process {pid}"), DirectoryLock(tmp_path):
            pass
        holder.kill()
        holder.wait()
    with DirectoryLock(tmp_path):
        pass


def test_what_is_no_directory(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnusable, match="file"), DirectoryLock(tmp_path / "file"):
        pass
