# ruff: noqa: S608 - what is put into statements here is quoted; the client's own is one SELECT
"""Query Blob Contents: one SELECT over a CSV, JSON or Parquet blob, run by DuckDB.

(Azure: 'Query Blob Contents', 'Query acceleration SQL language'.)  The blob's bytes are written to
a file of their own, and the engine may read that file and nothing else: no other path, no network,
no extension, no other kind of statement.  DuckDB is an optional extra, `etagere[query]`.
"""

import csv
import io
import json
import re
import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from etagere.base.errors import Refused

rows_at_once: Final = 2048
expression_chars_max: Final = 256 * 1024
memory_limit: Final = "256MB"
_table: Final = re.compile(r"\bBlobStorage\b(\[\*\])?((?:\.[A-Za-z_]\w*)*)(\[\*\])?", re.IGNORECASE)
_select: Final = re.compile(r"\s*(?:SELECT|WITH)\b", re.IGNORECASE)
_select_all: Final = re.compile(r"\s*SELECT\s+\*\s", re.IGNORECASE)
_select_some: Final = re.compile(r"\s*SELECT\s+\w+(?:\s*,\s*\w+)*\s+FROM\s", re.IGNORECASE)
_padding: Final = "\x01"
"""What no field says: only fields that a record does not have are NULL."""


@dataclass(frozen=True, slots=True)
class Delimited:
    column_separator: str = ","
    field_quote: str = '"'
    record_separator: str = "\n"
    escape: str = ""
    headers: bool = False


@dataclass(frozen=True, slots=True)
class JsonLines:
    record_separator: str = "\n"


@dataclass(frozen=True, slots=True)
class Parquet:
    pass


@dataclass(frozen=True, slots=True)
class ArrowField:
    kind: str
    name: str
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True, slots=True)
class Arrow:
    fields: tuple[ArrowField, ...]


Input = Delimited | JsonLines | Parquet
Output = Delimited | JsonLines | Arrow


@dataclass(frozen=True, slots=True)
class Query:
    expression: str
    reads: Input
    writes: Output | None
    """None: as it was read (Parquet as CSV)."""


async def save(chunks: AsyncIterator[bytes]) -> Path:
    """The blob's bytes in a file that `Running.close` removes."""
    with tempfile.NamedTemporaryFile(prefix="etagere-query-", delete=False) as file:
        try:
            async for chunk in chunks:
                file.write(chunk)
            file.flush()
        except BaseException:
            Path(file.name).unlink()  # noqa: ASYNC240 - at once, also where it is cancelled
            raise
    return Path(file.name)


class BadData(Refused):
    """The blob is not what the query takes it for: its answer says so, in its stream."""


class Skipped(NamedTuple):
    """A record that has not all the fields that were asked for, and is not in the result."""

    description: str


class Running:
    """A query under way.  Its methods block: call them in a thread, one at a time."""

    def __init__(self, query: Query, path: Path) -> None:
        self._query = query
        self._path = path
        self._connection: Any = None
        self._result: Any = None
        self._as_text = False

    def start(self) -> None:
        """Raises Refused for what is no SELECT over this blob."""
        try:
            import duckdb  # noqa: PLC0415 - optional, and slow to import
        except ImportError:
            raise Refused(
                "NotImplemented", message="Queries need DuckDB: pip install etagere[query]."
            ) from None
        if len(self._query.expression) > expression_chars_max:
            raise _invalid("The expression is too long.")
        self._connection = connection = duckdb.connect(
            config={
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
                "memory_limit": memory_limit,
                "threads": 1,
            }
        )
        try:
            connection.execute(f"SET allowed_paths=[{_literal(str(self._path))}]")
            connection.execute("SET enable_external_access=false")
            # Text is compared with numbers as it is on Azure.
            connection.execute("SET old_implicit_casting=true")
            connection.execute("SET lock_configuration=true")
            if not self._run_on_text(duckdb):
                self._run(duckdb)
        except (duckdb.DataError, duckdb.InvalidInputException) as error:
            raise BadData("InvalidInput", message=_first_line(error)) from None
        except duckdb.Error as error:
            raise _invalid(_first_line(error)) from None

    def _run_on_text(self, duckdb: Any) -> bool:
        """Fields of delimited text are what is written there, `1.0` and `FALSE`; where a query
        cannot work with that, the engine finds types for them."""
        if not isinstance(self._query.reads, Delimited):
            return False
        self._as_text = True
        try:
            self._run(duckdb)
        except duckdb.Error:
            self._as_text = False
        return self._as_text

    def _run(self, duckdb: Any) -> None:
        self._connection.execute(f"CREATE OR REPLACE TEMP VIEW BlobStorage AS {self._source()}")
        self._result = self._connection.execute(self._statement(duckdb))

    def _statement(self, duckdb: Any) -> str:
        text = _table.sub(_from, self._query.expression)
        statements = duckdb.extract_statements(text)
        # A PRAGMA or a bare VALUES counts as a SELECT for the parser.
        select = len(statements) == 1 and statements[0].type == duckdb.StatementType.SELECT
        if not select or _select.match(text) is None:
            raise _invalid("A query is one SELECT statement.")
        return text

    def _source(self) -> str:
        path = _literal(str(self._path))
        match self._query.reads:
            case Parquet():
                return f"SELECT * FROM read_parquet({path})"
            case JsonLines():
                return f"SELECT * FROM read_json({path}, format='auto', records='true')"
            case Delimited() as form:
                return self._delimited(path, form)

    def _delimited(self, path: str, form: Delimited) -> str:
        options = [
            f"delim={_literal(form.column_separator or ',')}",
            f"quote={_literal(form.field_quote)}",
            f"header={'true' if form.headers else 'false'}",
            "null_padding=true",
        ]
        if self._as_text:
            options += ["all_varchar=true", f"nullstr={_literal(_padding)}"]
        if form.escape:
            options.append(f"escape={_literal(form.escape)}")
        source = f"read_csv({path}, {', '.join(options)})"
        if form.headers:
            return f"SELECT * FROM {source}"
        described = self._connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
        names = ", ".join(f'"{row[0]}" AS "_{number}"' for number, row in enumerate(described, 1))
        return f"SELECT {names} FROM {source}"

    def batches(self) -> Iterator[bytes | Skipped]:
        """The result in the form that was asked for, some rows at a time."""
        writes = self._query.writes
        if writes is None:
            reads = self._query.reads
            writes = Delimited() if isinstance(reads, Parquet) else reads
        if isinstance(writes, Arrow):
            yield from self._arrow(writes)
            return
        names = [column[0] for column in self._result.description]
        # Records that are shorter than others come out as they went in.
        whole = self._as_text and _select_all.match(self._query.expression) is not None
        some = self._as_text and _select_some.match(self._query.expression) is not None
        if isinstance(writes, Delimited) and writes.headers:
            yield _csv([names], writes)
        while rows := self._result.fetchmany(rows_at_once):
            if some:
                short = sum(None in row for row in rows)
                yield from [Skipped("The record does not have all the columns.")] * short
                rows = [row for row in rows if None not in row]
            if isinstance(writes, Delimited):
                yield _csv(map(_without_padding, rows) if whole else rows, writes)
            else:
                yield _json(names, rows, writes)

    def _arrow(self, writes: Arrow) -> Iterator[bytes]:
        try:
            import pyarrow as pa  # noqa: PLC0415 - optional, and slow to import
        except ImportError:
            raise Refused(
                "NotImplemented", message="Arrow needs pyarrow: pip install etagere[query]."
            ) from None
        reader = self._result.to_arrow_reader(rows_at_once)
        schema = reader.schema
        if writes.fields:
            schema = pa.schema([(field.name, _arrow_type(pa, field)) for field in writes.fields])
        sink = io.BytesIO()
        try:
            with pa.ipc.new_stream(sink, schema) as writer:
                for batch in reader:
                    columns = [
                        batch.column(number).cast(field.type) for number, field in enumerate(schema)
                    ]
                    writer.write_batch(pa.record_batch(columns, schema=schema))
                    yield sink.getvalue()
                    sink.seek(0)
                    sink.truncate()
            yield sink.getvalue()
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, IndexError) as error:
            raise _invalid(str(error)) from None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._path.unlink(missing_ok=True)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _invalid(reason: str) -> Refused:
    return Refused("InvalidInput", message=reason)


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _from(found: re.Match[str]) -> str:
    """`BlobStorage[*].a.b` names what lies at a.b of each record."""
    path = found[2].removeprefix(".")
    if not path:
        return "BlobStorage"
    return f"(SELECT unnest({path}) FROM BlobStorage)"


def _text(value: object) -> object:
    match value:
        case bool():
            return "true" if value else "false"
        case bytes():
            return value.hex()
        case dict() | list():
            return json.dumps(value, default=str)
        case _:
            return value


def _without_padding(row: Sequence[object]) -> Sequence[object]:
    size = len(row)
    while size and row[size - 1] is None:
        size -= 1
    return row[:size]


def _csv(rows: Iterable[Sequence[object]], form: Delimited) -> bytes:
    target = io.StringIO()
    writer = csv.writer(
        target,
        delimiter=form.column_separator or ",",
        quotechar=form.field_quote or None,
        quoting=csv.QUOTE_MINIMAL if form.field_quote else csv.QUOTE_NONE,
        escapechar=form.escape or (None if form.field_quote else "\\"),
        lineterminator=form.record_separator or "\n",
    )
    writer.writerows([_text(value) for value in row] for row in rows)
    return target.getvalue().encode()


def _json(names: list[str], rows: list[Any], form: JsonLines) -> bytes:
    separator = form.record_separator or "\n"
    lines = (
        json.dumps(
            {name: value for name, value in zip(names, row, strict=True) if value is not None},
            default=str,
            ensure_ascii=False,
            separators=(",", ":"),
        )
        + separator
        for row in rows
    )
    return "".join(lines).encode()


def _arrow_type(pa: Any, field: ArrowField) -> Any:
    match field.kind.lower():
        case "int64":
            return pa.int64()
        case "bool":
            return pa.bool_()
        case "string":
            return pa.string()
        case "double":
            return pa.float64()
        case "timestamp[ms]":
            return pa.timestamp("ms")
        case "decimal":
            return pa.decimal128(field.precision or 38, field.scale)
        case kind:
            raise _invalid(f"'{kind}' is not a type of Arrow that is known here.")
