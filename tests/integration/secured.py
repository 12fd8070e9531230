"""A server that speaks TLS and lets in one user with a password."""

import shutil
import tempfile
from pathlib import Path
from urllib.parse import quote, urlencode

import redis

from tests.certificates import certify
from tests.topologies import NEVER, Process, free_ports

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

    def connection(self, timeout):
        return redis.Redis("127.0.0.1", self.port, **self.params, retry=NEVER)

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
