"""A network of its own: real public, private and metadata addresses, and a DNS server.

``unshare -rnm python network.py DIRECTORY`` runs the crawls that `CRAWLS` names, each
in a process, in a namespace where all of these addresses are this machine's. What was
connected to is written to ``DIRECTORY/connections.json``, and of each crawl its log and
its stats. Nothing of ours is replaced, and no packet leaves the machine.
"""

import contextlib
import ipaddress
import json
import os
import socket
import struct
import subprocess
import sys
import threading
from collections import Counter, defaultdict
from pathlib import Path

from tests.rawsite import answer, page, redirect

PUBLIC, OTHER, PUBLIC_6 = "93.184.216.34", "8.8.8.8", "2606:4700::1111"
INSIDE = {
    "loopback": ("127.0.0.1", "::1"),
    "private": ("10.0.0.5", "fd12::5"),
    "link-local": ("169.254.7.7",),
    "metadata": ("169.254.169.254", "fd00:ec2::254", "100.100.100.200"),
}
ADDRESSES = (PUBLIC, OTHER, PUBLIC_6, *(a for each in INSIDE.values() for a in each))
PROXY = 3128
NAMES = {
    "public.example": [PUBLIC],
    "other.example": [OTHER],
    "private.example": ["10.0.0.5"],
    "local.example": ["127.0.0.1"],
    "meta.example": ["169.254.169.254"],
    "mixed.example": ["10.0.0.5", PUBLIC],
    "robots.example": [OTHER],
    "proxied.example": [PUBLIC],
}
REBOUND = "rebound.example"
REBOUND_AFTER = {REBOUND: 2}
"""Names that lead elsewhere after so many look-ups: the first page's robots.txt, and
the page; what is resolved before a handler is called that is not ours."""
SPELLINGS = {
    "loopback": "127.0.0.1 127.1 0177.0.0.1 0x7f.0.0.1 2130706433 0x7f000001 0.0.0.0 "
    "localhost localhost. a.localhost [::1] [::ffff:127.0.0.1] [::ffff:7f00:1] "
    "[64:ff9b::7f00:1] [2002:7f00:1::] local.example",
    "private": "10.0.0.5 012.0.0.5 167772165 [::ffff:a00:5] [fd12::5] private.example",
    "link-local": "169.254.7.7",
    "metadata": "169.254.169.254 2852039166 0xa9fea9fe 0251.0376.0251.0376 "
    "[::ffff:169.254.169.254] [fd00:ec2::254] 100.100.100.200 meta.example",
}


def hops():
    """Paths that redirect to each address inside, by each spelling."""
    return {
        f"/hop/{kind}/{number}": f"http://{host}/inside"
        for kind, hosts in SPELLINGS.items()
        for number, host in enumerate(hosts.split())
    }


def answered(host, path):
    """What the sites say, all of them."""
    if path == "/robots.txt":
        if host == "robots.example":
            return redirect("http://169.254.169.254/latest/robots.txt")
        return answer(status="404 No")
    if path == "/":
        refresh = '<meta http-equiv="refresh" content="0; url=http://10.0.0.5/refresh">'
        return page(*hops(), *LINKS) if host != "refresh" else page(text=refresh)
    if path in hops():
        return redirect(hops()[path])
    if path == "/refresh":
        target = "http://10.0.0.5/refreshed"
        return page(text=f'<meta http-equiv="refresh" content="0; url={target}">')
    if path == "/first":
        return page("/second")
    return page()


LINKS = (
    "/refresh",
    "http://other.example/page",
    "http://mixed.example/page",
    f"http://{REBOUND}/first",
    "http://robots.example/page",
    "http://127.0.0.1/link",
    "http://[fd00:ec2::254]/link",
    "http://public.example/plain",
)


class Network:
    """The addresses, what listens on them, and who has connected to what."""

    def __init__(self, directory):
        self.connections = defaultdict(list)
        self._asked = Counter()
        run = subprocess.check_call
        run(["ip", "link", "set", "lo", "up"])
        for address in ADDRESSES:
            if address not in {"127.0.0.1", "::1"}:
                usable = ["nodad"] * (":" in address)  # at once
                run(["ip", "addr", "add", address, "dev", "lo", *usable])
        resolver = directory / "resolv.conf"
        resolver.write_text("nameserver 127.0.0.1\noptions timeout:30 attempts:2\n")
        run(["mount", "--bind", str(resolver), "/etc/resolv.conf"])
        hosts = directory / "hosts"
        hosts.write_text("127.0.0.1 localhost\n::1 localhost\n")
        run(["mount", "--bind", str(hosts), "/etc/hosts"])
        self._names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._names.bind(("127.0.0.1", 53))
        self._start(self._resolve)
        for address in ADDRESSES:
            self._start(self._serve, self._listen(address, 80), address)
        self._start(self._serve, self._listen("127.0.0.1", PROXY), "proxy")

    def _start(self, target, *args):
        threading.Thread(target=target, args=args, daemon=True).start()

    def _listen(self, address, port):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        made = socket.socket(family, socket.SOCK_STREAM)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind((address, port))
        made.listen(128)
        return made

    def _serve(self, listener, name):
        while True:
            connection, _ = listener.accept()
            self._start(self._talk, connection, name)

    def _talk(self, connection, name):
        connection.settimeout(30)
        received = b""
        with contextlib.suppress(OSError), connection:
            while b"\r\n\r\n" not in received:
                data = connection.recv(65536)
                if not data:
                    break
                received += data
            self.connections[name].append(received.decode("latin-1"))
            if not received:
                return
            target = received.split(b" ")[1].decode()
            if target.startswith("http://"):
                host, _, path = target[7:].partition("/")
                target = f"/{path}"
            else:
                head = received.decode("latin-1").lower()
                host = head.partition("host: ")[2].partition("\r\n")[0]
            connection.sendall(answered(host, target))

    def _resolve(self):
        while True:
            query, sender = self._names.recvfrom(4096)
            self._names.sendto(self._reply(query), sender)

    def _reply(self, query):
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1 : at + 1 + query[at]].decode().lower())
            at += 1 + query[at]
        (kind,) = struct.unpack("!H", query[at + 1 : at + 3])
        name = ".".join(labels)
        found = NAMES.get(name, [])
        if name in REBOUND_AFTER and kind == 1:
            self._asked[name] += 1
            is_later = self._asked[name] > REBOUND_AFTER[name]
            found = ["169.254.169.254"] if is_later else [PUBLIC]
        wanted = {1: socket.AF_INET, 28: socket.AF_INET6}.get(kind)
        records = b""
        count = 0
        for address in found:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            if family == wanted:
                data = socket.inet_pton(family, address)
                records += b"\xc0\x0c" + struct.pack("!HHIH", kind, 1, 0, len(data))
                records += data
                count += 1
        known = found or name in REBOUND_AFTER
        flags = 0x8180 if known else 0x8183
        head = query[:2] + struct.pack("!HHHHH", flags, 1, count, 0, 0)
        return head + query[12 : at + 5] + records


class Service:
    """A download handler that asks a service, which tells an address or does not."""

    lazy = False

    def __init__(self, crawler):
        pass

    from_crawler = classmethod(lambda cls, crawler: cls(crawler))

    async def download_request(self, request):
        from scrapy.http import HtmlResponse

        is_told = "/told" in request.url
        address = ipaddress.ip_address("169.254.169.254") if is_told else None
        return HtmlResponse(request.url, body=b"<p>x", ip_address=address)

    async def close(self):
        pass


SCRAPYS = "scrapy.core.downloader.handlers.http11.HTTP11DownloadHandler"
CRAWLS = {
    "public": (["http://public.example/"], {"DNSCACHE_ENABLED": False}),
    "private": (["http://private.example/"], {}),
    "given": (
        ["http://public.example/"],
        {"FRONTIER_ALLOW_ADDRESSES": "public metadata", "FRONTIER_WARC_ENABLED": False},
    ),
    "proxied": (
        ["http://proxied.example/"],
        {"ASK_PROXY": f"http://127.0.0.1:{PROXY}"},
    ),
    "foreign": (["http://public.example/"], {"DOWNLOAD_HANDLERS": {"http": SCRAPYS}}),
    "service": (
        [
            "http://public.example/told",
            "http://public.example/plain",
            "http://meta.example/inside",
        ],
        {"DOWNLOAD_HANDLERS": {"http": Service}, "ASK_PROXY": "http://proxy.example"},
    ),
}


def crawl(directory, name):
    """Crawl as *name* says, in this process, and write what came of it."""
    import scrapy
    from scrapy.crawler import AsyncCrawlerProcess

    urls, given = CRAWLS[name]
    more = dict(given)
    proxy = more.pop("ASK_PROXY", "")
    fetched = []

    class Follow(scrapy.Spider):
        start_urls = urls

        def parse(self, response):
            fetched.append(response.url)
            for link in response.css("a::attr(href)").getall():
                yield response.follow(link, errback=self.failed)

        def failed(self, failure):
            if "/link" in failure.request.url and name == "public":
                yield scrapy.Request("http://127.0.0.1/errback", errback=self.failed)
                yield failure.request.replace(url="http://localhost/errback")

    class Proxy:
        def process_request(self, request):
            if name == "proxied" or "meta.example" in request.url:
                request.meta["proxy"] = proxy

    Follow.name = name
    settings = {
        "ADDONS": {"frontier.addon.Addon": 100},
        "FRONTIER_STORE_DIR": str(directory / name / "f"),
        "FRONTIER_WARC_DIR": str(directory / name / "w"),
        "FRONTIER_NODE_ID": name,
        "FRONTIER_PARTITIONS": 64,
        "FRONTIER_BUSY_MAX": 0,
        "ROBOTSTXT_OBEY": True,
        "LOG_FILE": str(directory / f"{name}.log"),
        "LOG_LEVEL": "INFO",
        "TELNETCONSOLE_ENABLED": False,
        "COOKIES_ENABLED": False,
        "RETRY_ENABLED": False,
        "DOWNLOAD_TIMEOUT": 20,
        **({"DOWNLOADER_MIDDLEWARES": {Proxy: 500}} if proxy else {}),
        **more,
    }
    process = AsyncCrawlerProcess(settings)
    crawler = process.create_crawler(Follow)
    process.crawl(crawler)
    process.start()
    stats = {key: str(value) for key, value in crawler.stats.get_stats().items()}
    result = {"fetched": sorted(fetched), "stats": stats}
    (directory / f"{name}.json").write_text(json.dumps(result))


def main():
    directory = Path(sys.argv[1])
    chosen = sys.argv[2:] or list(CRAWLS)
    network = Network(directory)
    import scrapy.crawler  # noqa: F401 (once, for all)

    import frontier.addon  # noqa: F401

    done = {}
    for name in chosen:  # one after the other: who has connected is known by that
        before = {key: len(value) for key, value in network.connections.items()}
        if (child := os.fork()) == 0:
            code = 1
            try:
                crawl(directory, name)
                code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        done[name] = {
            "status": os.waitstatus_to_exitcode(status),
            "connections": {
                key: value[before.get(key, 0) :]
                for key, value in network.connections.items()
                if value[before.get(key, 0) :]
            },
        }
    (directory / "connections.json").write_text(json.dumps(done))


if __name__ == "__main__":
    main()
