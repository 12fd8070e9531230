"""A server that sends prepared bytes, and keeps the bytes that it was sent."""

import contextlib
import socket
import ssl
import threading
import time

from tests.certificates import certify


def answer(body=b"", *headers, status="200 OK"):
    """What a site says: *headers* are lines of its head.

    It says that the connection is closed, as it is: a POST that is sent on one that
    was closed unsaid has failed, and its retries may, too.
    """
    body = body.encode() if isinstance(body, str) else body
    length = f"Content-Length: {len(body)}"
    lines = [f"HTTP/1.1 {status}", "Connection: close", length, *headers, "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


def page(*links, text=""):
    """A page of HTML with *links*."""
    body = text + "".join(f'<a href="{link}">x</a>' for link in links)
    return answer(body, "Content-Type: text/html")


def redirect(location):
    """What leads to *location*."""
    return answer(b"", f"Location: {location}", status="302 Found")


class RawSite:
    """Serves ``{path: bytes}`` on the loopback; a path it lacks is a short 404.

    A value may be a function of the connection, which sends what it likes. The
    connection is closed after each answer. *requests* has what was received,
    path to bytes, and *times* when. Whatever is not in *pages* is answered by what
    *answer* returns, a function of the path and of what was received. Nothing is
    answered while *open* is clear. A *listener* is a socket to accept from.
    """

    def __init__(
        self, pages, tls=None, address="127.0.0.1", answer=None, listener=None
    ):
        self.pages = pages
        self.requests = {}
        self.times = {}
        self.open = threading.Event()
        self.open.set()
        self._tls = tls
        self._answer = answer
        self._listener = listener or socket.create_server((address, 0))
        self.port = self._listener.getsockname()[1]
        self.origin = f"{'https' if tls else 'http'}://{address}:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, path):
        return f"{self.origin}{path}"

    def close(self):
        self._listener.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(
                    target=self._serve, args=(connection,), daemon=True
                ).start()

    def _serve(self, connection):
        connection.settimeout(240)
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            stack.enter_context(connection)
            if self._tls:
                connection = self._tls.wrap_socket(connection, server_side=True)
                stack.enter_context(connection)
            received = b""
            while b"\r\n\r\n" not in received:
                received += connection.recv(65536)
                if not received:
                    return
            head, _, body = received.partition(b"\r\n\r\n")
            for line in head.split(b"\r\n"):
                name, _, value = line.partition(b":")
                while name.lower() == b"content-length" and len(body) < int(value):
                    body += connection.recv(65536)
            path = head.split(b" ")[1].decode()
            self.times[path] = time.time()
            self.requests[path] = head + b"\r\n\r\n" + body
            self.open.wait()
            missing = answer(status="404 Nope")
            prepared = self.pages.get(path, missing)
            if self._answer and path not in self.pages:
                connection.sendall(self._answer(path, self.requests[path]))
            elif callable(prepared):
                prepared(connection)
            else:
                connection.sendall(prepared)
            if self._tls:
                connection.unwrap()


SLOW = "127.0.0.66"
"""The address of a site that `Impatient` does not wait for long."""


class Impatient:
    """A downloader middleware that waits for one page, or one site, alone not long."""

    def process_request(self, request):
        if request.url.endswith("/slow") or f"//{SLOW}:" in request.url:
            request.meta["download_timeout"] = 5.0


def tls_context(directory):
    """A server's TLS context with a certificate of its own making."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certify(directory), directory / "key.pem")
    return context
