"""Certificates of servers and clients of tests."""

import ipaddress
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


def certify(directory, signer=None):
    """Make a key, and a certificate for 127.0.0.1 that it has signed itself.

    Or that the key in the directory *signer* has signed, for a client.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    host = [x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")]
    issuer = x509.Name(host)
    name = issuer
    by = key
    if signer is not None:
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a client")])
        by = serialization.load_pem_private_key(
            (signer / "key.pem").read_bytes(), password=None
        )
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(
            x509.BasicConstraints(ca=signer is None, path_length=None if signer else 0),
            critical=True,
        )
        .sign(by, hashes.SHA256())
    )
    (directory / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    path = directory / "certificate.pem"
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return path
