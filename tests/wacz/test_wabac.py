"""A WACZ of ours in wabac, the reader of ReplayWeb.page and Browsertrix, under Node."""

import hashlib
import json

import pytest

from frontier.wacz.create import create, warc_files
from tests import foreign
from tests.harness.commands import output_of
from tests.warc.samples import inside

pytestmark = pytest.mark.compat


def test_wabac_reads_all_members_and_finds_captures(tmp_path, write_warc, wabac):
    out = tmp_path / "c.wacz"
    create(out, warc_files([write_warc("c-1", [b"one", b"two" * 9000, b"one"])]))

    members, found = wabac(
        out, [{"url": f"http://example.com/{number}"} for number in range(4)]
    )

    held = inside(out)
    assert len(held) == 6
    assert members == {
        name: {
            "sha256": hashlib.sha256(data).hexdigest(),
            "size": len(data),
            "says": len(data),
        }
        for name, data in held.items()
    }
    bodies = ["one", "two" * 9000, "one"]  # the last is a revisit
    assert found == [*({"status": 200, "body": body} for body in bodies), None]


READERS = {
    "yauzl": """
        import yauzl from "yauzl";
        const zip = await yauzl.openPromise?.(path)
            ?? await new Promise((done, failed) => yauzl.open(path,
                {lazyEntries: true}, (e, z) => e ? failed(e) : done(z)));
        await new Promise((done, failed) => {
            zip.on("error", failed); zip.on("end", done);
            zip.on("entry", (entry) => zip.openReadStream(entry, (e, stream) => {
                if (e) return failed(e);
                const parts = [];
                stream.on("data", (part) => parts.push(part));
                stream.on("end", () => {
                    found[entry.fileName] = sha(Buffer.concat(parts));
                    zip.readEntry();
                });
            }));
            zip.readEntry();
        });
    """,
    "fflate": """
        import { unzipSync } from "fflate";
        for (const [name, data] of Object.entries(unzipSync(readFileSync(path))))
            found[name] = sha(data);
    """,
    "unzipit": """
        import { unzip } from "unzipit";
        const { entries } = await unzip(new Uint8Array(readFileSync(path)));
        for (const [name, entry] of Object.entries(entries))
            found[name] = sha(new Uint8Array(await entry.arrayBuffer()));
    """,
}


@pytest.mark.parametrize("reader", READERS)
def test_zip_readers_of_others_read_all_members(tmp_path, write_warc, reader):
    place = foreign.npm()
    out = tmp_path / "c.wacz"
    create(out, warc_files([write_warc("c-1", [b"one", b"two"])]))
    (tmp_path / "node_modules").symlink_to(place / "node_modules")
    script = tmp_path / "read.mjs"
    script.write_text(
        'import { readFileSync } from "node:fs";'
        'import { createHash } from "node:crypto";'
        "const path = process.argv[2]; const found = {};"
        'const sha = (data) => createHash("sha256").update(data).digest("hex");'
        + READERS[reader]
        + "console.log(JSON.stringify(found));"
    )

    said = output_of(["node", script, out], cwd=tmp_path)

    assert json.loads(said) == {
        name: hashlib.sha256(data).hexdigest() for name, data in inside(out).items()
    }
