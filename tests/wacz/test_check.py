import gzip
import json
import zipfile

import pytest

from frontier.cli.output import ExitCode
from frontier.wacz.check import check
from frontier.wacz.create import create, warc_files
from frontier.wacz.layout import DIGEST
from tests.harness import commands
from tests.warc.samples import change_members, inside


@pytest.fixture
def sound(tmp_path, write_warc):
    out = tmp_path / "sound.wacz"
    create(out, warc_files([write_warc("c-1", [b"<p>one</p>", b"<p>two</p>"])]))
    return out


def changed(sound, change, name="changed.wacz", deflated=(), told=None):
    """The complaints about *sound* after *change* of its members; *told* gets notes."""
    told = [] if told is None else told
    members = inside(sound)
    change(members)
    other = sound.with_name(name)
    with zipfile.ZipFile(other, "w") as archive:
        for name, data in members.items():
            packed = name in deflated or len(data) > 10**6
            how = zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED
            archive.writestr(zipfile.ZipInfo(name), data, how)
    return check(other, note=told.append)


def test_repacked_wacz_has_no_faults(sound):
    assert changed(sound, lambda members: None) == []


@pytest.mark.parametrize(
    ("member", "complaint"),
    [
        ("pages/pages.jsonl", "pages/pages.jsonl is missing"),
        ("datapackage.json", "datapackage.json is missing"),
        ("datapackage-digest.json", "datapackage-digest.json is missing"),
        ("indexes/index.cdx.gz", "the index is empty"),
        ("indexes/index.idx", "indexes/index.cdx.gz: no .idx leads to its lines"),
    ],
)
def test_missing_member_is_reported(sound, member, complaint):
    assert complaint in changed(sound, lambda members: members.pop(member))


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../up", "a/../../b", "..\\x", "c:\\x", "c:x"]
)
def test_names_that_lead_out_are_refused(sound, name):
    (complaint,) = changed(sound, lambda members: members.update({name: b""}))

    assert "leads out of the file" in complaint


def test_a_name_may_have_a_time_in_it(sound):
    """Scoop has such: ``raw/request_2023-02-19T00:52:06.500Z_7afe6fdc``."""
    name = "raw/request_2023-02-19T00:52:06.500Z_7afe6fdc"

    assert "leads out" not in str(changed(sound, lambda all_: all_.update({name: b""})))


def edit(members, change):
    package = json.loads(members["datapackage.json"])
    change(package)
    members["datapackage.json"] = json.dumps(package).encode()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda p: p["resources"][0].update(bytes=1), "bytes, not 1"),
        (lambda p: p["resources"][0].update(hash="sha256:" + "0" * 64), "is another"),
        (lambda p: p["resources"][0].update(hash="md5:00"), "not sha256:<hex>"),
        (lambda p: p["resources"][0].update(path="../x"), "listed, but not there"),
        (lambda p: p["resources"].pop(0), "is there, but not listed"),
        (lambda p: p.update(resources=7), "resources is not a list"),
        (lambda p: p.pop("profile"), "profile is not"),
        (lambda p: p.pop("wacz_version"), "wacz_version is missing"),
        (lambda p: p.update(relation={"requires": 7}), "requires: is not a list"),
        (
            lambda p: p.update(relation={"requires": [{"filename": "x"}]}),
            "without a SHA-256",
        ),
    ],
)
def test_wrong_datapackage_field_is_reported(sound, change, complaint):
    found = changed(sound, lambda members: edit(members, change))

    assert any(complaint in text for text in found), found
    assert any("the hash is not that of datapackage.json" in text for text in found)


@pytest.mark.parametrize("is_of_it", [True, False])
def test_a_signature_is_told_and_what_it_is_of_compared(sound, is_of_it):
    """As py-wacz and Browsertrix sign: the domain's key signs the package's hash."""

    def sign(members):
        said = json.loads(members[DIGEST])
        of = said["hash"] if is_of_it else "sha256:0"
        said["signedData"] = {"hash": of, "domain": "signs.example", "signature": "x"}
        members[DIGEST] = json.dumps(said).encode()

    told = []
    found = changed(sound, sign, told=told)

    assert ["what was signed" in text for text in found] == [True] * (not is_of_it)
    assert ["signs.example" in text for text in told] == [True] * is_of_it


@pytest.mark.parametrize("text", [b"{", b"[" * 100_000, b"\xff", b"3"])
def test_malformed_datapackage_json_is_reported(sound, text):
    found = changed(sound, lambda members: members.update({"datapackage.json": text}))

    assert any("datapackage.json is " in one for one in found), found
    assert not any("zip" in one for one in found), "the zip file is sound"


def test_wrong_offsets_and_order_of_an_index_are_reported(sound):
    def shift(members):
        lines = gzip.decompress(members["indexes/index.cdx.gz"])
        other = lines.replace(b'"offset": "', b'"offset": "1').splitlines(keepends=True)
        members["indexes/index.cdx.gz"] = gzip.compress(b"".join(other[::-1]) * 2)

    found = changed(sound, shift)

    assert sum("index is not sorted" in text for text in found) == 1
    assert sum("no record of its own" in text for text in found) == 2
    assert sum("leaves out the record" in text for text in found) == 2


@pytest.mark.parametrize(
    ("member", "old", "new", "complaint"),
    [
        ("indexes/index.idx", b'"offset": 0', b'"offset": 9', "offset 9, but 0 is"),
        ("indexes/index.idx", b'"offset": 0', b'"offset": null', "offset None"),
        ("indexes/index.idx", b'"length": ', b'"length": 1', "bytes are there"),
        ("indexes/index.idx", b"com,example", b"com,examples", "member begins with"),
        ("indexes/index.idx", b"index.cdx.gz", b"other.cdx.gz", "There is no"),
        ("indexes/index.idx", b"sha256:", b"sha256:0", "the digest differs"),
        ("indexes/index.idx", b"cdxj-gzip-1.0", b"cdx", "its format is not"),
        ("indexes/index.idx", b'": ', b'" ', "line 1: "),
        ("pages/pages.jsonl", b'"ts": "2', b'"ts": "x2', "line 2: ts is not a date"),
    ],
)
def test_wrong_idx_entry_or_page_date_is_reported(sound, member, old, new, complaint):
    def edited(members):
        assert old in members[member]
        members[member] = members[member].replace(old, new)

    found = changed(sound, edited)

    assert any(complaint in text for text in found), found


def test_specification_violations_are_reported(sound):
    def add(members):
        members["archive/old.warc"] = gzip.compress(b"WARC/1.1")

    found = "; ".join(
        changed(sound, add, "changed.zip", deflated={"indexes/index.cdx.gz"})
    )

    assert "its name does not end in .wacz" in found
    assert "gzip, which a .warc is not" in found
    assert "'indexes/index.cdx.gz': is compressed in the zip" in found


def test_members_that_share_bytes_are_refused(sound):
    data = bytearray(sound.read_bytes())
    at = data.rindex(b"PK\1\2")
    data[at + 42 : at + 46] = (30).to_bytes(4, "little")  # where its header would be
    sound.write_bytes(data)

    (complaint,) = check(sound)

    assert "shares bytes with another member" in complaint


def test_a_revisit_of_another_url_needs_it(tmp_path, write_warc):
    """The payload is there, but not where a replay tool looks for it."""
    directory = write_warc("c-1", [b"<p>one</p>", b"<p>two</p>", b"<p>one</p>"])
    (path,) = directory.iterdir()
    was, now = (b"Refers-To-Target-URI: http://example.com/%d" % n for n in (0, 1))
    change_members(path, lambda _, record: record.replace(was, now))
    out = tmp_path / "c.wacz"

    assert create(out, [path]).missing == 1
    (complaint,) = check(out)
    assert complaint.startswith("unresolved revisit in")


def test_revisits_with_originals_elsewhere_are_reported_in_one_line(
    tmp_path, write_warc
):
    first, second = tmp_path / "there" / "1.wacz", tmp_path / "2.wacz"
    first.parent.mkdir()
    pages = [b"<p>one</p>", b"<p>two</p>"]
    directory = write_warc("c-1", pages)
    create(first, warc_files([directory], crawl_id="c-1"))
    write_warc("c-2", pages)
    create(second, warc_files([directory], crawl_id="c-2"))

    def run(*words):
        return commands.run("wacz", *words)

    done = run("check", second)
    lines = [*done.stdout.splitlines(), *done.stderr.splitlines()]
    assert len(lines) == 3
    assert lines[-1].startswith(f"{second}: 2 of 2 faults are revisits whose originals")
    words = ["--crawl", "c-2", "--against", first, "--force"]
    assert run("create", second, directory, *words).returncode == ExitCode.OK
    done = run("check", second, "--against", first)
    assert (done.stdout, done.stderr) == (f"{second}: sound\n", "")
    sound, told = run("check", second).stdout.splitlines()
    assert sound == f"{second}: sound"
    assert "2 revisits are believed to have their originals in 1.wacz" in told


def test_failed_wacz_create_prints_one_line_and_sets_the_exit_code(
    tmp_path, write_warc
):
    directory = write_warc("c-1", [b"<p>one</p>"])
    (path,) = directory.iterdir()
    (tmp_path / "empty").mkdir()
    cut = tmp_path / "cut.warc.gz"
    cut.write_bytes(path.read_bytes()[:-20])
    out = tmp_path / "1.wacz"

    for words, code in (
        ((out.with_suffix(".zip"), directory), ExitCode.USAGE),
        ((out, tmp_path / "none"), ExitCode.NOT_FOUND),
        ((out, cut), ExitCode.FAULTY),
        ((out, tmp_path / "empty"), ExitCode.FAULTY),
    ):
        done = commands.run("wacz", "create", *words)
        (line,) = done.stderr.splitlines()
        assert (done.returncode, done.stdout) == (code, ""), line
