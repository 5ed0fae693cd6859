"""The order in which .NET's word sort puts header names.

The documentation says that canonical headers are sorted "lexicographically", and the live service
does it with a culture's collation: hyphens and apostrophes do not count until everything else is
equal, and an underscore comes before the digits.  SDKs imitate it, each in its own way.
"""

from typing import Final

_order: Final = "!#$%&*.^_`|~+0123456789abcdefghijklmnopqrstuvwxyz"
_weights: Final = {ord(character): weight for weight, character in enumerate(_order, 1)}
_last_resort: Final = {"'": 1, "-": 2}


def collation_key(name: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """A sort key for a lower-case header name."""
    return (
        tuple(_weights.get(ord(c), ord(c)) for c in name if c not in _last_resort),
        tuple(_last_resort.get(c, 0) for c in name),
    )
