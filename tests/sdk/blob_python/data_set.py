"""What data tools do with a container through fsspec: a program of its own, because adlfs leaves
its event loop to the interpreter's end.  Takes a connection string."""

import random
import sys

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from adlfs import AzureBlobFileSystem

rows = 120_000
place = "things/set"


def table(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "year": [2020 + number % 3 for number in numbers],
            "city": [("Oslo", "Rome", "São Paulo")[number % 7 % 3] for number in numbers],
            "n": list(numbers),
            "text": [f"row {number}" * (number % 5) for number in numbers],
        }
    )


def write(fs: AzureBlobFileSystem, data: pa.Table, name: str) -> None:
    ds.write_dataset(
        data, place, format="parquet", partitioning=["year", "city"], partitioning_flavor="hive",
        filesystem=fs, basename_template=f"{name}-{{i}}.parquet", max_rows_per_file=10_000,
        max_rows_per_group=5000, existing_data_behavior="overwrite_or_ignore",
    )  # fmt: skip
    fs.invalidate_cache()


def read(fs: AzureBlobFileSystem) -> ds.Dataset:
    return ds.dataset(place, format="parquet", partitioning="hive", filesystem=fs)


def partitions(fs: AzureBlobFileSystem) -> None:
    whole = table(0, rows)
    write(fs, whole, "first")
    found = read(fs)
    assert found.count_rows() == rows
    assert len(found.files) >= 9
    few = found.to_table(
        columns=["n", "city"],
        filter=(ds.field("year") == 2021)
        & (ds.field("city") == "São Paulo")
        & (ds.field("n") < 50),
    )
    expected = [n for n in range(50) if n % 3 == 1 and n % 7 % 3 == 2]
    assert sorted(few["n"].to_pylist()) == expected
    write(fs, table(rows, 1000), "second")
    again = read(fs)
    assert again.count_rows() == rows + 1000
    assert pc.sum(again.to_table(columns=["n"])["n"]).as_py() == sum(range(rows + 1000))
    texts = again.to_table(columns=["n", "text"]).sort_by("n")["text"]
    assert texts.to_pylist() == table(0, rows + 1000)["text"].to_pylist()
    fs.rm(f"{place}/year=2020", recursive=True)
    fs.invalidate_cache()
    assert read(fs).count_rows() == sum(1 for n in range(rows + 1000) if n % 3)


def one_file(fs: AzureBlobFileSystem) -> None:
    """Written in several blocks, and read in ranges."""
    noise = random.Random(1).randbytes(8 * 200_000)
    data = pa.table({"noise": pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(8), 200_000, [None, pa.py_buffer(noise)])})  # fmt: skip
    with fs.open("things/one.parquet", "wb", block_size=512 * 1024) as file:
        pq.write_table(data, file, row_group_size=20_000, compression="none")
    with fs.open("things/one.parquet", "rb", block_size=64 * 1024) as file:
        parquet = pq.ParquetFile(file)
        assert parquet.num_row_groups == 10
        assert parquet.read_row_group(7).equals(data.slice(140_000, 20_000))
    assert fs.info("things/one.parquet")["size"] > len(noise)


def files(fs: AzureBlobFileSystem) -> None:
    fs.pipe({f"things/tree/{name}": name.encode() for name in ("a", "b/c", "b/d/e", "b/d/f g")})
    fs.invalidate_cache()
    found = sorted(fs.find("things/tree"))
    assert found == [f"things/tree/{name}" for name in ("a", "b/c", "b/d/e", "b/d/f g")], found
    assert sorted(fs.glob("things/tree/**/e")) == ["things/tree/b/d/e"]
    assert sorted(each["type"] for each in fs.ls("things/tree", detail=True)) == [
        "directory", "file",
    ]  # fmt: skip
    assert fs.du("things/tree") == 1 + 3 + 5 + 7
    assert fs.cat("things/tree/b/d/f g") == b"b/d/f g"[:8]
    assert fs.cat_file("things/tree/b/d/e", 2, 5) == b"d/e"
    fs.copy("things/tree/a", "things/tree/copy")
    fs.mv("things/tree/b/c", "things/tree/moved")
    fs.invalidate_cache()
    assert (fs.cat("things/tree/copy"), fs.cat("things/tree/moved")) == (b"a", b"b/c")
    assert not fs.exists("things/tree/b/c")
    with fs.open("things/tree/lines", "w") as file:
        file.write("one\ntwo\n")
    with fs.open("things/tree/lines") as file:
        assert [line.decode().strip() for line in file] == ["one", "two"]
    fs.rm("things/tree", recursive=True)
    fs.invalidate_cache()
    assert not fs.exists("things/tree")


def main() -> None:
    fs = AzureBlobFileSystem(connection_string=sys.argv[1])
    fs.mkdir("things")
    for work in (partitions, one_file, files):
        work(fs)
        print(work.__name__, flush=True)  # noqa: T201 - what the test looks for


if __name__ == "__main__":
    main()
