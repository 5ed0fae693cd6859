"""`etagere cert DIR`: a local authority and a certificate for this machine, signed by it."""

import datetime as dt
import ipaddress
import os
import sys
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from etagere.app.configuration import Unusable

authority_days: Final = 3650
certificate_days: Final = 397
"""Longer ones are refused by some clients."""
renewed_days_before: Final = 30
_host_names: Final = ("localhost", "*.localhost", "*.blob.localhost", "*.queue.localhost",
                      "*.table.localhost", "*.file.localhost", "*.dfs.localhost")  # fmt: skip

_advice: Final = """\
Made {certificate} and {key}, signed by {authority}.

  etagere serve --tls-cert {certificate} --tls-key {key}

To trust it:
  Python (requests, azure-*)   export REQUESTS_CA_BUNDLE={authority}
  Python (aiohttp, ssl)        export SSL_CERT_FILE={authority}
  Node.js                      export NODE_EXTRA_CA_CERTS={authority}
  Go, curl                     export SSL_CERT_FILE={authority} (curl: --cacert)
  Java                         keytool -importcert -cacerts -alias etagere -file {authority}
  Debian, Ubuntu               cp {authority} /usr/local/share/ca-certificates/etagere.crt
                               && update-ca-certificates
  macOS                        security add-trusted-cert -k ~/Library/Keychains/login.keychain-db
                               {authority}
"""


def make(directory: str) -> int:
    folder = Path(directory)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        paths = make_files(folder)
    except OSError as error:
        raise Unusable(
            f"{directory} cannot be written ({error.strerror}); choose another directory."
        ) from error
    names = ("authority", "certificate", "key")
    sys.stdout.write(_advice.format(**dict(zip(names, paths, strict=True))))
    return 0


def make_files(folder: Path) -> tuple[Path, Path, Path]:
    """(authority, certificate, key); an authority that is there, with its key, is used again."""
    authority_path, authority_key_path = folder / "authority.pem", folder / "authority-key.pem"
    if authority_path.exists() and authority_key_path.exists():
        authority, authority_key = _read_authority(authority_path, authority_key_path)
    else:
        authority, authority_key = _make_authority()
        _write_private(authority_key_path, authority_key)
        authority_path.write_bytes(authority.public_bytes(Encoding.PEM))
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _sign(key, authority, authority_key)
    certificate_path, key_path = folder / "localhost.pem", folder / "localhost-key.pem"
    _write_private(key_path, key)
    chain = certificate.public_bytes(Encoding.PEM) + authority.public_bytes(Encoding.PEM)
    certificate_path.write_bytes(chain)
    return authority_path, certificate_path, key_path


def is_due(certificate: Path) -> bool:
    """Whether it ends within a month, or cannot even be read."""
    try:
        found = x509.load_pem_x509_certificate(certificate.read_bytes())
    except (OSError, ValueError):
        return True
    soon = dt.datetime.now(dt.UTC) + dt.timedelta(days=renewed_days_before)
    return found.not_valid_after_utc < soon


def _read_authority(
    path: Path, key_path: Path
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    try:
        authority = x509.load_pem_x509_certificate(path.read_bytes())
        key = load_pem_private_key(key_path.read_bytes(), None)
    except ValueError as error:
        raise Unusable(f"{path} and {key_path} are no authority; remove them.") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise Unusable(f"{key_path} was not made by etagere; choose another directory.")
    return authority, key


def _name(common: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Etagere"),
            x509.NameAttribute(NameOID.COMMON_NAME, common),
        ]
    )


def _builder(name: x509.Name, issuer: x509.Name, days: int) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=days))
    )


def _make_authority() -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(f"Etagere local authority ({os.uname().nodename})")
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    authority = (
        _builder(name, name, authority_days)
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return authority, key


def _sign(
    key: ec.EllipticCurvePrivateKey,
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
) -> x509.Certificate:
    names: list[x509.GeneralName] = [x509.DNSName(name) for name in _host_names]
    names += [x509.IPAddress(ipaddress.ip_address(text)) for text in ("127.0.0.1", "::1")]
    public = authority_key.public_key()
    return (
        _builder(_name("localhost"), authority.subject, certificate_days)
        .public_key(key.public_key())
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(public), critical=False)
        .sign(authority_key, hashes.SHA256())
    )


def _write_private(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    path.touch(mode=0o600)
    path.chmod(0o600)
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
