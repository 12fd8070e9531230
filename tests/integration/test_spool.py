"""Large bodies, and the memory of the node that fetches them."""

import threading
from pathlib import Path

from tests.rawsite import RawSite
from tests.warc.judges import read_fastwarc, read_warcio

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: video/x\r\n"
BLOCK = bytes(range(256)) * 4096
WHOLE = BLOCK * 12
LIMIT = 150_000_000


def endless(connection):
    connection.sendall(HEAD + b"\r\n")
    while True:
        connection.sendall(BLOCK)


def anonymous_memory(process):
    """Bytes that are the process's own: not what it maps of files; 0 if it is gone."""
    try:
        lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    found = [line.split()[1] for line in lines if line.startswith("RssAnon")]
    return max((int(kilobytes) << 10 for kilobytes in found), default=0)


def test_a_body_without_end_is_cut_and_never_in_memory(cluster):
    whole = HEAD + b"Content-Length: %d\r\n\r\n" % len(WHOLE) + WHOLE
    site = RawSite({"/whole": whole, "/endless": endless})
    node = cluster.start(
        "n1",
        "-a",
        f"seeds={site.url('/whole')},{site.url('/endless')}",
        ROBOTSTXT_OBEY="0",
        RETRY_TIMES="0",
        DOWNLOAD_MAXSIZE=str(LIMIT),
        FRONTIER_WARC_SPOOL_BYTES="1000000",
    )
    seen, ended = [anonymous_memory(node)], threading.Event()

    def watch():
        while not ended.wait(0.02) and node.poll() is None:
            seen.append(anonymous_memory(node))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        assert cluster.wait("n1") == [0], cluster.text_of("n1")[-3000:]
    finally:
        ended.set()
        watcher.join()
        cluster.close()
        site.close()
    found = {}
    (path,) = cluster.warc_dir.glob("*.warc.gz")
    read_fastwarc(path)
    for kind, headers, _, payload in read_warcio(path):
        if kind == "response":
            found[headers["WARC-Target-URI"]] = headers, payload

    headers, payload = found[site.url("/whole")]
    assert payload == WHOLE
    assert "WARC-Truncated" not in headers
    headers, payload = found[site.url("/endless")]
    assert headers["WARC-Truncated"] == "length"
    assert len(payload) > LIMIT
    assert payload.startswith(WHOLE)
    grown = max(seen) - seen[0]
    assert grown < LIMIT / 2, f"{grown:,}"
