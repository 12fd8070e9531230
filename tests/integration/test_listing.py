"""The CDXJ beside each WARC file lists what others' indexers find in it."""

import signal

from conftest import SHORT, until

from frontier.cdx.lines import listed as line_of
from frontier.cdx.lines import paired, parse
from frontier.warc.reader import records


def files(cluster):
    return sorted(cluster.warc_dir.glob("*.warc.gz"))


def listed(path):
    raw = path.with_name(path.name.removesuffix(".warc.gz") + ".cdxj").read_bytes()
    lines = raw.splitlines(keepends=True)
    assert lines == sorted(lines)
    return lines


def read(path):
    with path.open("rb") as file:
        blocks = iter(lambda: file.read(1 << 20), b"")
        made = paired(records(path.name, blocks))
        lines = [line_of(one, path.name, how) for one, how in made]
        return sorted(line.encode() for line in lines if line is not None)


def test_it_is_what_reading_the_file_finds_also_after_a_kill(serve, cluster):
    server = serve(urls=160, hosts=2, calendar_months=1, delay=0.02)
    seeds = f"seeds={','.join(server.seeds)}"
    cluster.start("node-1", "-a", seeds, FRONTIER_WARC_MAX_BYTES=20_000, **SHORT)
    until(lambda: len(files(cluster)) > 2, "closed files")
    cluster.nodes["node-1"].send_signal(signal.SIGKILL)
    cluster.nodes["node-1"].wait()
    cluster.start("node-1", "-a", seeds, FRONTIER_WARC_MAX_BYTES=20_000, **SHORT)

    assert cluster.wait() == [0], cluster.text_of("node-1")
    every = files(cluster)
    assert len(every) > 4
    for path in every:
        assert listed(path) == read(path)
    assert not list(cluster.warc_dir.glob("*.open"))
    found = [parse(line) for path in every for line in listed(path)]
    assert {"revisit", "response"} <= {one.kind for one in found}
    assert any(one.title for one in found)
    assert any(one.refers_to for one in found)
