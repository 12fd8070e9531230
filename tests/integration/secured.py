"""A server that speaks TLS and lets in one user with a password."""

import contextlib
import ipaddress
import shutil
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote, urlencode

import redis
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.topologies import DEADLINE, Process, free_ports

USER = "crawler"
SECRET = "s3cr@t/of:odd#parts"


class SecuredServer(Process):
    """On a port of loopback; `authority` is the file of who signed for it.

    With *mutual* it asks clients for a certificate of that one's, too; `client` is one.
    """

    def __init__(self, binary, *options, mutual=False):
        self._home = home = Path(tempfile.mkdtemp(prefix="frontier-", dir="/tmp"))
        (port,) = free_ports(1)
        pem = certify(home)
        self.authority = str(pem)
        self.client = {}
        if mutual:
            (home / "client").mkdir()
            certificate = certify(home / "client", signer=home)
            key = certificate.with_name("key.pem")
            self.client = {"ssl_certfile": str(certificate), "ssl_keyfile": str(key)}
        super().__init__(
            binary, home / "server", port, port,
            "--port", "0", "--bind", "127.0.0.1", "--save", "",
            "--tls-port", str(port), "--tls-auth-clients", "yes" if mutual else "no",
            "--tls-cert-file", str(pem), "--tls-key-file", str(home / "key.pem"),
            "--tls-ca-cert-file", str(pem),
            "--user", USER, "on", f">{SECRET}", "~*", "&*", "+@all",
            "--user", "default", "off", *options,
        )  # fmt: skip

    def ask(self, *command):
        client = redis.Redis(
            "127.0.0.1", self.port, **self.params, socket_timeout=DEADLINE
        )
        client.set_retry(None)
        with contextlib.closing(client):
            return client.execute_command(*command)

    @property
    def params(self):
        """Parameters of a connection, beside the server's address."""
        who = {"username": USER, "password": SECRET}
        return {**who, "ssl": True, "ssl_ca_certs": self.authority, **self.client}

    def url(self, secret=SECRET, authority=None):
        who, signed = f"{USER}:{quote(secret, safe='')}", authority or self.authority
        query = urlencode({"ssl_ca_certs": signed, **self.client})
        return f"rediss://{who}@127.0.0.1:{self.port}/0?{query}"

    def remove(self):
        self.kill()
        shutil.rmtree(self._home)


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
