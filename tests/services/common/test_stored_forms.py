"""Every kind of record that was ever written is read, with every field where it was.

`stored_forms.json` has bytes as a server once wrote them, and what they said.  Nothing in it is
ever changed.  A new kind of record, or a new version of one, adds its own sample:

    .venv/bin/python tests/services/common/test_stored_forms.py
"""

import enum
import importlib
import json
import pkgutil
import types
import typing
from pathlib import Path

import msgspec
import pytest

import etagere.extents
import etagere.services
from etagere.kv.layers.records import Codec

file = Path(__file__).with_name("stored_forms.json")
samples = json.loads(file.read_text()) if file.exists() else []


def codecs() -> dict[str, Codec]:
    """By the module that defines it; others import it from there."""
    found: dict[int, tuple[str, Codec]] = {}
    for package in (etagere.services, etagere.extents):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            for name, value in vars(importlib.import_module(module.name)).items():
                if isinstance(value, Codec):
                    key = f"{module.name.removeprefix('etagere.')}:{name}"
                    if id(value) not in found or module.name.endswith(".records"):
                        found[id(value)] = key, value
    return dict(found.values())


def kind_of(codec: Codec):
    return codec._decode.__self__.type


def plain(record):
    return json.loads(msgspec.json.encode(record))


def says(found, expected) -> bool:
    """Whether a record says what it did; fields may have been added behind, with defaults."""
    if isinstance(expected, dict):
        return isinstance(found, dict) and all(
            name in found and says(found[name], value) for name, value in expected.items()
        )
    if isinstance(expected, list):
        return (
            isinstance(found, list)
            and len(found) >= len(expected)
            and all(map(says, found, expected))
        )
    return found == expected


@pytest.mark.parametrize("sample", samples, ids=[f"{s['kind']}-{s['version']}" for s in samples])
def test_what_was_stored_is_read(sample):
    codec = codecs()[sample["kind"]]
    record = codec.decode(bytes.fromhex(sample["bytes"]))
    assert says(plain(record), sample["says"])
    assert codec.decode(codec.encode(record)) == record


def test_every_version_of_every_kind_has_a_sample():
    wanted = {(name, n) for name, codec in codecs().items() for n in range(1, codec.version + 1)}
    there = {(sample["kind"], sample["version"]) for sample in samples}
    assert wanted == there, "add samples as the first lines of this file say"
    assert len(wanted) > 20


def test_a_field_that_moves_is_noticed():
    sample = next(s for s in samples if s["kind"] == "services.queue.records:messages")
    record = plain(codecs()[sample["kind"]].decode(bytes.fromhex(sample["bytes"])))
    assert says(record, sample["says"])
    assert not says(list(reversed(record)), sample["says"])
    assert not says(record[:-1], sample["says"])
    assert says([*record, None], sample["says"])


# ---- samples


class Sampler:
    """Values in which no two fields are alike, so that none can take another's place."""

    def __init__(self) -> None:
        self.number = 0
        self.bound = {}

    def next(self) -> int:
        self.number += 1
        return self.number

    def value(self, kind, depth: int = 0):
        origin, arguments = typing.get_origin(kind), typing.get_args(kind)
        if isinstance(kind, typing.TypeVar):
            return self.value(self.bound[kind], depth)
        if isinstance(origin, type) and issubclass(origin, msgspec.Struct):
            self.bound |= zip(origin.__parameters__, arguments, strict=True)
            return self.simple(origin, depth)
        if origin in (typing.Union, types.UnionType):
            return self.value(next(a for a in arguments if a is not type(None)), depth)
        if origin is typing.Annotated:
            return self.value(arguments[0], depth)
        if origin is tuple and arguments[-1] is Ellipsis:
            return tuple(self.value(arguments[0], depth + 1) for _ in range(2 if depth < 2 else 1))
        if origin is tuple:
            return tuple(self.value(each, depth + 1) for each in arguments)
        if origin in (list, set, frozenset):
            return origin([self.value(arguments[0], depth + 1)])
        if origin is typing.Literal:
            return arguments[-1]
        if origin is not None and len(arguments) == 1:  # a sequence
            return [self.value(arguments[0], depth + 1)]
        if origin is not None:  # a mapping
            return {self.value(arguments[0]): self.value(arguments[1], depth + 1)}
        if isinstance(kind, typing.NewType):
            return self.value(kind.__supertype__, depth)
        return self.simple(kind, depth)

    def simple(self, kind, depth: int):
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            return list(kind)[-1]
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            fields = typing.get_type_hints(kind, include_extras=True)
            names = msgspec.structs.fields(kind)
            return kind(**{f.name: self.value(fields[f.name], depth + 1) for f in names})
        if isinstance(kind, type) and issubclass(kind, tuple):
            return kind(*(self.value(each, depth) for each in typing.get_type_hints(kind).values()))
        number = self.next()
        match kind.__name__:
            case "int":
                return number
            case "float":
                return number + 0.5
            case "bool":
                return True
            case "str":
                return f"text {number}"
            case "bytes":
                return b"bytes %d" % number
        raise TypeError(kind)


def add_samples() -> None:
    known = {(sample["kind"], sample["version"]) for sample in samples}
    for name, codec in sorted(codecs().items()):
        if (name, codec.version) in known:
            continue
        record = Sampler().value(kind_of(codec))
        raw = codec.encode(record)
        said = plain(codec.decode(raw))
        samples.append({"kind": name, "version": codec.version, "bytes": raw.hex(), "says": said})
    lines = ",\n".join(json.dumps(sample) for sample in samples)
    file.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    add_samples()
