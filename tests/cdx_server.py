"""A CDX server on the loopback, over real sockets, that answers as a test tells it."""

import contextlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextlib.contextmanager
def cdx_server(answer):
    """Serve at its ``address``; *answer* is given each request, and replies to it."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            answer(self)

        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.block_on_close = False
        server.address = f"http://127.0.0.1:{server.server_port}/coll/cdx"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def reply(request, status, body, headers=()):
    """Answer *request* with *body*, text or bytes."""
    data = body if isinstance(body, bytes) else body.encode()
    request.send_response(status)
    for name, value in headers:
        request.send_header(name, value)
    request.send_header("Content-Length", str(len(data)))
    request.end_headers()
    request.wfile.write(data)
