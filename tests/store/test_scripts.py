import hashlib
import re
from importlib.resources import files

import pytest

from frontier.store import scripts
from frontier.store.scripts import SCRIPTS

FILES = sorted(
    path.name.removesuffix(".lua")
    for path in (files("frontier.store") / "lua").iterdir()
    if path.name.endswith(".lua")
)
script = pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)


def parts(script):
    """The header of *script*, without its dashes, and its body."""
    lines = script.source.splitlines()
    length = next(n for n, line in enumerate(lines) if not line.startswith("--"))
    return "\n".join(line[3:] for line in lines[:length]), "\n".join(lines[length:])


def test_every_file_is_registered_and_every_registration_has_a_file():
    assert sorted(script.name for script in SCRIPTS) == FILES
    for each in SCRIPTS:
        assert getattr(scripts, each.name.upper()) is each


@script
def test_a_header_says_what_the_script_does_and_returns(script):
    header, _ = parts(script)

    assert re.match(rf"{script.name}: \S.*\.$", header.splitlines()[0])
    assert re.search(r"^Returns ", header, re.MULTILINE)


@script
def test_a_header_declares_every_key_and_argument(script):
    header, body = parts(script)
    code = re.sub(r"--.*", "", body)

    for used in sorted(set(re.findall(r"(?:KEYS|ARGV)\[\d+\]", code))):
        assert re.search(rf"^{re.escape(used)}  \S", header, re.MULTILINE), used


@script
def test_a_header_declares_nothing_that_is_not_used(script):
    header, body = parts(script)
    declared = re.findall(r"^(KEYS|ARGV)\[(\d+)(\.\.\.)?\]", header, re.MULTILINE)

    for kind, number, many in declared:
        if many:
            assert re.search(rf"#{kind}|unpack\({kind}|{kind}\[(?!\d+\])", body)
        else:
            assert f"{kind}[{number}]" in body
    for kind in ("KEYS", "ARGV"):
        numbers = [int(n) for k, n, _ in declared if k == kind]
        assert numbers == list(range(1, len(numbers) + 1))


@script
def test_a_script_asks_the_server_for_the_time_and_for_no_key_by_pattern(script):
    _, body = parts(script)
    commands = set(re.findall(r"redis\.call\('(\w+)'", body))

    assert not commands & {"KEYS", "SCAN", "RANDOMKEY", "FLUSHALL", "FLUSHDB", "EVAL"}
    assert not re.search(r"^ARGV\S+  (now|time)", parts(script)[0], re.MULTILINE)


@script
def test_a_script_names_no_key_of_its_own(script):
    _, body = parts(script)
    first = re.findall(r"redis\.call\([^,()]+,\s*([^,)]+)", body)

    assert first
    assert not [key for key in first if "'" in key or ".." in key]


@script
def test_a_script_compiles_on_every_server(script, db):
    assert db("SCRIPT LOAD", script.source) == script.sha
    assert script.sha == hashlib.sha1(script.source.encode()).hexdigest()


def test_fenced_scripts_begin_with_the_fence():
    for name in ("queue_reserve", "queue_ack", "queue_requeue", "queue_bury"):
        _, body = parts(next(s for s in SCRIPTS if s.name == name))
        first = body.strip().splitlines()[0]

        assert first == "if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then"
