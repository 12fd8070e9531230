"""The canonicalization rules that a WACZ carries, in a member of its own.

``rules/canonicalization.json`` is listed among the resources as every member is,
and validators and replay tools skip it. It has, for each rule set of the
WARC files, name, version, SHA-256, the set itself, and the files under it::

    {"canonicalization": [{"name": ..., "version": 1, "sha256": ..., "rules": {...},
                           "files": ["a.warc.gz"]}]}
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from frontier.cdx.declared_rules import FIELD, declared_in
from frontier.errors import BadWarc
from frontier.files import open_input
from frontier.wacz.layout import ARCHIVE

if TYPE_CHECKING:
    import zipfile
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from frontier.cdx.declared_rules import Declared

MEMBER = "rules/canonicalization.json"
MAX_BYTES = 16 << 20


def members(warcs: Sequence[Path]) -> Iterator[tuple[str, bytes]]:
    """Name and content of what a WACZ of *warcs* has of their rules.

    Nothing if no file says its rules. Only the first records of each are read.

    Raises:
        BadWarc: A file is cut off before its first capture, or is none.
        OSError: A file cannot be read.
    """
    said = []
    for path in warcs:
        with open_input(path) as stream:
            said.append((path.name, declared_in(str(path), stream)))
    sets = _sets(said)
    if sets:
        yield MEMBER, json.dumps({FIELD: sets}, indent=2).encode()


def faults(archive: zipfile.ZipFile) -> list[str]:
    """What is wrong with the member: a digest, or what its WARC files say.

    A WACZ without it is sound: other tools write none.
    """
    try:
        sets = listed(archive)
    except (ValueError, RecursionError) as error:
        return [f"{MEMBER}: {error}"]
    wrong: list[str] = []
    by_file: dict[str, str] = {}
    for each in sets:
        text = json.dumps(each["rules"], sort_keys=True, separators=(",", ":"))
        if hashlib.sha256(text.encode()).hexdigest() != each["sha256"]:
            wrong.append(f"{MEMBER}: the rules {each['name']!r:.100} have another hash")
        by_file |= dict.fromkeys(map(str, each["files"]), str(each["sha256"]))
    there = set(archive.namelist())
    for file, digest in by_file.items():
        name = f"{ARCHIVE}{file}"
        if name not in there:
            wrong.append(f"{MEMBER}: {file[:200]!r} is not there")
            continue
        try:
            with archive.open(name) as stream:
                found = declared_in(name, stream)
        except BadWarc:
            continue  # which is reported for the file itself
        if found.digest != digest:
            wrong.append(f"{MEMBER}: {file[:200]!r} says {found.label}")
    return wrong


def _sets(said: Iterable[tuple[str, Declared]]) -> list[dict[str, Any]]:
    sets: dict[str, dict[str, Any]] = {}
    for file, one in said:
        if not one.name:
            continue
        rules = json.loads(one.text) if one.text else None
        facts = {"name": one.name, "version": one.version, "sha256": one.digest}
        known = sets.setdefault(one.digest, {**facts, "rules": rules, "files": []})
        known["rules"] = known["rules"] or rules
        known["files"].append(file)
    return [one for one in sets.values() if one["rules"] is not None]


def listed(archive: zipfile.ZipFile) -> list[dict[str, Any]]:
    """The rule sets that a WACZ carries, as in the module's text; none, if so.

    Raises:
        ValueError: The member is not what it has to be.
    """
    if MEMBER not in archive.namelist():
        return []
    if archive.getinfo(MEMBER).file_size > MAX_BYTES:
        raise ValueError(f"it has more than {MAX_BYTES:,} bytes")
    given = json.loads(archive.read(MEMBER))
    found = given.get(FIELD) if isinstance(given, dict) else None
    if not isinstance(found, list) or not all(
        isinstance(each, dict)
        and isinstance(each.get("files"), list)
        and {"name", "version", "sha256", "rules"} <= each.keys()
        for each in found
    ):
        raise ValueError("it is not a list of rules and files")
    return found
