"""A secret that signs strings: an account key, or a user delegation key derived from one."""

import binascii
import hashlib
import hmac
from typing import Final

key_bytes_min: Final = 1
"""Azure's keys have 64 bytes; emulators let people choose shorter ones."""


class SigningKey:
    """HMAC-SHA256 under one key, with the key's own half of the work done once.

    Keys compare by identity: whoever rotates a key makes a new one, and nothing that was verified
    with the old one is taken for verified with the new.
    """

    __slots__ = ("_mac", "_secret")

    def __init__(self, secret: bytes) -> None:
        assert len(secret) >= key_bytes_min
        self._secret = secret
        self._mac = hmac.new(secret, digestmod=hashlib.sha256)

    @classmethod
    def from_base64(cls, text: str) -> "SigningKey":
        """Raises ValueError where the text is not base64 of at least one byte."""
        secret = binascii.a2b_base64(text.encode("ascii"), strict_mode=True)
        if len(secret) < key_bytes_min:
            raise ValueError("an account key is empty")
        return cls(secret)

    def digest(self, text: str) -> bytes:
        mac = self._mac.copy()
        # A query may decode to lone surrogates; such a string cannot have been signed by anybody,
        # and must be refused rather than fail to encode.
        mac.update(text.encode("utf-8", "surrogatepass"))
        return mac.digest()

    def signature(self, text: str) -> str:
        """The base64 that clients send."""
        return binascii.b2a_base64(self.digest(text), newline=False).decode("ascii")

    def signed(self, text: str, signature: str) -> bool:
        """Whether `signature` is this key's for `text`, in time that does not tell how nearly."""
        computed = binascii.b2a_base64(self.digest(text), newline=False)
        return hmac.compare_digest(computed, signature.encode("utf-8", "surrogatepass"))

    def secret_base64(self) -> str:
        return binascii.b2a_base64(self._secret, newline=False).decode("ascii")
