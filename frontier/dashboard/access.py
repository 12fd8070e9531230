"""Who may ask the status page, and what a browser may do with its answers.

What always holds:

1.  Without a token, only requests to a name of this machine are answered, so that a web
    page whose name is made to lead here learns nothing (DNS rebinding).
2.  With a token, those who do not have it see only whether the page runs, the form that
    asks for it, and its style.
3.  Only GET and HEAD are answered, and the form's POST.
4.  Every answer forbids loading or running anything from other sites, and forbids other
    sites to show it.
5.  The token is compared in constant time. It is in no answer, no URL and no log; the
    cookie has another value, which is void when this process has ended.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse

from frontier.status.document import VERSION
from frontier.urls.addresses import is_loopback, name_of_header

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LEAST_TOKEN = 16
"""The fewest characters that a token may have."""
COOKIE = "frontier_dashboard"
OPEN = ("/healthz", "/login", "/static/")
"""Paths that are answered without a token; all below one that ends in a slash."""
MAX_FORM = 4096
"""Bytes of a form that are read."""
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; "
        "img-src 'self' data:; connect-src 'self'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Access:
    """Stands before *app*, and answers requests that must not reach it."""

    def __init__(self, app: ASGIApp, token: str = "") -> None:
        self._app = app
        self._token = token.encode()
        made = hmac.new(secrets.token_bytes(32), self._token, hashlib.sha256)
        self._pass = made.hexdigest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or hand it on."""
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        answer: ASGIApp = await self._refusal(scope, receive) or self._app
        await answer(scope, receive, send_with_headers)

    async def _refusal(self, scope: Scope, receive: Receive) -> Response | None:
        headers, path = Headers(scope=scope), scope["path"]
        if not self._token and not is_loopback(name_of_header(headers.get("host", ""))):
            return PlainTextResponse(
                "the Host header is not a name of this server\n", 421
            )
        if self._token and scope["method"] == "POST" and path == "/login":
            return await self._log_in(Request(scope, receive))
        if scope["method"] not in {"GET", "HEAD"}:
            return PlainTextResponse(
                "the status page is read-only\n", 405, {"Allow": "GET, HEAD"}
            )
        is_open = any(path == o or path.startswith(o) * o.endswith("/") for o in OPEN)
        if not self._token or is_open or self._may(Request(scope)):
            return None
        if "text/html" in headers.get("accept", ""):
            return RedirectResponse("/login", 303)
        return JSONResponse(
            {"schema": VERSION, "error": "a token is needed"},
            401,
            {"WWW-Authenticate": "Bearer"},
        )

    def _may(self, request: Request) -> bool:
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        is_bearer = kind.lower() == "bearer"
        return (is_bearer and self._is_token(given.strip())) or hmac.compare_digest(
            request.cookies.get(COOKIE, "").encode(), self._pass.encode()
        )

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "replace"), self._token)

    async def _log_in(self, request: Request) -> Response:
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_FORM:
                return PlainTextResponse("too long\n", 413)
        form = parse_qs(body.decode("utf-8", "replace"), max_num_fields=8)
        if not self._is_token(form.get("token", [""])[0]):
            return RedirectResponse("/login?wrong=1", 303)
        answer = RedirectResponse("/", 303)
        is_tls = request.url.scheme == "https"
        answer.set_cookie(
            COOKIE, self._pass, httponly=True, samesite="strict", secure=is_tls
        )
        return answer
