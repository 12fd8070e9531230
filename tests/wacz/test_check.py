import json
import tracemalloc
import zipfile

import pytest

from frontier.cdx.reader import records
from frontier.errors import BadWarc
from frontier.wacz.check import check
from frontier.wacz.create import create, warc_files


@pytest.fixture
def sound(tmp_path, write_warc):
    out = tmp_path / "sound.wacz"
    create(out, warc_files([write_warc("c-1", [b"<p>one</p>", b"<p>two</p>"])]))
    return out


def changed(sound, change):
    """Return the complaints about *sound* after *change* of its members."""
    with zipfile.ZipFile(sound) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    other = sound.with_name("changed.wacz")
    with zipfile.ZipFile(other, "w") as archive:
        for name, data in members.items():
            how = zipfile.ZIP_DEFLATED if len(data) > 10**6 else zipfile.ZIP_STORED
            archive.writestr(zipfile.ZipInfo(name), data, how)
    return check(other)


def test_what_is_sound_stays_sound(sound):
    assert changed(sound, lambda members: None) == []


@pytest.mark.parametrize(
    ("member", "complaint"),
    [
        ("pages/pages.jsonl", "pages/pages.jsonl is missing"),
        ("datapackage.json", "datapackage.json is missing"),
        ("indexes/index.cdx.gz", "the index is empty"),
    ],
)
def test_what_is_missing_is_told(sound, member, complaint):
    assert complaint in changed(sound, lambda members: members.pop(member))


@pytest.mark.parametrize("name", ["/etc/passwd", "../up", "a/../../b", "c:\\x"])
def test_names_that_lead_out_are_refused(sound, name):
    (complaint,) = changed(sound, lambda members: members.update({name: b""}))

    assert "leads out of the file" in complaint


def test_a_zip_bomb_is_refused_unopened(sound):
    bomb = {"logs/bomb": bytes(50_000_000)}
    (complaint,) = changed(sound, lambda members: members.update(bomb))

    assert "a zip bomb of 50000000 bytes" in complaint


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
        (lambda p: p["resources"][0].update(path="../x"), "leads out of the file"),
        (lambda p: p["resources"].pop(0), "is there, but not listed"),
        (lambda p: p.update(resources=7), "resources is not a list"),
        (lambda p: p.pop("profile"), "profile is not"),
        (lambda p: p.pop("wacz_version"), "wacz_version is missing"),
    ],
)
def test_json_that_lies_is_told(sound, change, complaint):
    found = changed(sound, lambda members: edit(members, change))

    assert any(complaint in text for text in found), found
    assert any("the hash is not that of datapackage.json" in text for text in found)


@pytest.mark.parametrize("text", [b"{", b"[" * 100_000, b"\xff", b"3"])
def test_a_package_that_is_no_json_object_is_told(sound, text):
    found = changed(sound, lambda members: members.update({"datapackage.json": text}))

    assert found


def test_an_index_that_points_elsewhere_is_told(sound):
    import gzip

    def shift(members):
        lines = gzip.decompress(members["indexes/index.cdx.gz"])
        other = lines.replace(b'"offset": "', b'"offset": "1')
        members["indexes/index.cdx.gz"] = gzip.compress(other)

    found = changed(sound, shift)

    assert sum("no record of its own" in text for text in found) == 2
    assert sum("leaves out the record" in text for text in found) == 2


def test_a_hundred_thousand_headers_and_a_bomb_take_bounded_memory():
    import gzip

    many = gzip.compress(b"WARC/1.1\r\n" + b"A: b\r\n" * 100_000 + b"\r\n")
    top = b"WARC/1.1\r\nContent-Length: 1\r\n\r\n"
    bomb = gzip.compress(top + bytes(100_000_000))
    tracemalloc.start()

    for data, reason in ((many, "endless headers"), (bomb, "says 1 bytes")):
        with pytest.raises(BadWarc, match=reason):
            list(records("x.warc.gz", [data]))

    assert tracemalloc.get_traced_memory()[1] < 8_000_000
    tracemalloc.stop()
