"""What the site answers with, before it is framed as HTTP."""

from __future__ import annotations

import gzip
from dataclasses import dataclass, replace

LAST_MODIFIED = b"Mon, 01 Jan 2024 00:00:00 GMT"
CHUNK_BYTES = 256

Headers = tuple[tuple[bytes, bytes], ...]


@dataclass(frozen=True, slots=True)
class Resource:
    """One answer: the same for the same site, host, method and target."""

    status: int
    headers: Headers
    """Without those that frame the message (such as ``Content-Length``)."""
    body: bytes
    """The entity body with its content coding."""
    chunked: bool = False
    """Whether it is sent in chunks of ``CHUNK_BYTES`` instead of with a length."""
    wait: float = 0.0
    """Seconds that the server holds it back."""

    def header(self, name: bytes) -> bytes | None:
        """The value of the first header called *name* in this spelling."""
        return next((value for key, value in self.headers if key == name), None)

    @property
    def is_html(self) -> bool:
        """Whether the body is HTML, under whatever content coding."""
        return (self.header(b"Content-Type") or b"").startswith(b"text/html")

    @property
    def decoded(self) -> bytes:
        """The body without its content coding."""
        if self.header(b"Content-Encoding") == b"gzip":
            return gzip.decompress(self.body)
        return self.body

    def with_headers(self, *headers: tuple[bytes, bytes]) -> Resource:
        """This resource with *headers* after its own."""
        return replace(self, headers=(*self.headers, *headers))

    def in_chunks(self) -> Resource:
        """This resource, sent in chunks."""
        return replace(self, chunked=True)

    def after(self, seconds: float) -> Resource:
        """This resource, held back for *seconds*."""
        return replace(self, wait=seconds)

    def gzipped(self) -> Resource:
        """This resource with a gzip body; equal bytes for equal bodies and zlibs."""
        body = gzip.compress(self.body, mtime=0)
        return replace(self, body=body).with_headers((b"Content-Encoding", b"gzip"))


def ok(content_type: str, body: bytes) -> Resource:
    """A 200 of *content_type*."""
    headers = (
        (b"Content-Type", content_type.encode("ascii")),
        (b"Last-Modified", LAST_MODIFIED),
    )
    return Resource(200, headers, body)


def html(text: str) -> Resource:
    """A 200 with a page."""
    return ok("text/html; charset=utf-8", text.encode())


def redirect(status: int, location: str) -> Resource:
    """A 301 or 302; *location* may be relative."""
    headers = (
        (b"Content-Type", b"text/plain; charset=utf-8"),
        (b"Location", location.encode("ascii")),
    )
    return Resource(status, headers, b"The page is elsewhere.\n")


def failure(status: int, text: str) -> Resource:
    """An error page, without links."""
    headers = ((b"Content-Type", b"text/html; charset=utf-8"),)
    body = f"<!doctype html>\n<title>{status}</title>\n<p>{text}</p>\n"
    return Resource(status, headers, body.encode())
