"""Certificates of our own, for servers and clients."""

import datetime as dt
from pathlib import Path

import attrs
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = 86_400.0


@attrs.frozen
class Authority:
    """A certificate authority in a folder, which signs what it is asked to."""

    folder: Path
    name: str
    key: ec.EllipticCurvePrivateKey = attrs.field(
        factory=lambda: ec.generate_private_key(ec.SECP256R1()), repr=False
    )

    @property
    def path(self) -> str:
        return str(self.folder / f"{self.name}.pem")

    def __attrs_post_init__(self) -> None:
        self._write(self.name, self.key, [], ca=True, seconds=_DAY)

    def sign(
        self, name: str, names: list[x509.GeneralName], *, seconds: float = _DAY
    ) -> tuple[str, str]:
        """Paths of a new certificate for these names and of its key; valid for so many seconds."""
        key = ec.generate_private_key(ec.SECP256R1())
        return self._write(name, key, names, ca=False, seconds=seconds)

    def _write(
        self,
        name: str,
        key: ec.EllipticCurvePrivateKey,
        names: list[x509.GeneralName],
        *,
        ca: bool,
        seconds: float,
    ) -> tuple[str, str]:
        now = dt.datetime.now(dt.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self.name)]))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(seconds=_DAY))
            .not_valid_after(now + dt.timedelta(seconds=seconds))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = builder.sign(self.key, hashes.SHA256())
        paths = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        paths[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        # The server may run under another account.
        paths[1].chmod(0o644)
        return str(paths[0]), str(paths[1])
