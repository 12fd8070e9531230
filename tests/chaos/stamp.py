"""Names the process that sends a request, in the request.

A default header would not do: it is stored with a request that a redirect or a
retry makes, and then names the process that made it.
"""

import os

VARIABLE = "CHAOS_PROCESS"
"""Of the environment: what to write into ``X-Frontier-Node``."""


class StampMiddleware:
    """A downloader middleware nearest the wire."""

    def process_request(self, request):
        """Say whose *request* this is."""
        request.headers["X-Frontier-Node"] = os.environ[VARIABLE]
