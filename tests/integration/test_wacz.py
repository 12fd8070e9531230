"""The WACZ that the last node makes of a finished crawl."""

import zipfile

from warcio.archiveiterator import ArchiveIterator

from frontier.cdx.lines import parse
from frontier.wacz.check import check
from frontier.wacz.requires import index_lines


def test_the_last_node_makes_one_of_both_nodes_files(serve, cluster, tmp_path):
    server = serve(urls=130, hosts=2, calendar_months=12)
    seeds = ",".join(server.seeds)
    directory = tmp_path / "waczs"
    for node in ("node-1", "node-2"):
        cluster.start(
            node, "-a", f"seeds={seeds}", "-s", f"FRONTIER_WACZ_DIR={directory}"
        )
    assert cluster.wait() == [0, 0]

    (path,) = directory.iterdir()

    assert check(path) == []
    wanted = sorted(
        f"archive/{each.name}" for each in cluster.warc_dir.glob("*.warc.gz")
    )
    with zipfile.ZipFile(path) as archive:
        indexed = sorted(parse(raw).url for raw in index_lines(archive))
        names = sorted(n for n in archive.namelist() if n.startswith("archive/"))
    assert names == wanted
    captured = []
    for warc in cluster.warc_dir.glob("*.warc.gz"):
        with warc.open("rb") as stream:
            captured += [
                record.rec_headers.get_header("WARC-Target-URI")
                for record in ArchiveIterator(stream)
                if record.rec_type in {"response", "revisit"}
            ]
    assert indexed == sorted(captured)
