import re
from importlib.resources import files
from pathlib import Path

import frontier
from frontier.store.scripts import SCRIPTS, fragment, included
from tests.harness.cases import each

LUA = files("frontier.store") / "lua"
PACKAGE = Path(frontier.__file__).parent


def names_in(directory):
    found = (path.name for path in directory.iterdir())
    return sorted(name.removesuffix(".lua") for name in found if name.endswith(".lua"))


FILES, FRAGMENTS = names_in(LUA), names_in(LUA / "fragments")
script = each("script", SCRIPTS.values())


def parts(script):
    """The header of *script*, without its dashes, and its code, fragments first."""
    return split(script.source)


def split(source):
    lines = source.splitlines()
    length = next(n for n, line in enumerate(lines) if not line.startswith("--"))
    return "\n".join(line[3:] for line in lines[:length]), "\n".join(lines[length:])


def test_every_script_is_called_and_every_call_has_a_script():
    code = "".join(path.read_text("utf-8") for path in PACKAGE.rglob("*.py"))
    called = re.findall(r'(?:Call|cls)\.to\(\s*"(\w+)"|Plan\("(\w+)"', code)

    assert sorted({name for one in called for name in one if name}) == FILES
    assert sorted(SCRIPTS) == FILES


def test_every_fragment_is_included_by_a_script_and_by_no_fragment():
    used = {name for script in SCRIPTS.values() for name in included(script.source)}

    assert sorted(used) == FRAGMENTS
    assert [name for name in FRAGMENTS if included(fragment(name))] == []


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
