import hashlib
import re
from importlib.resources import files
from pathlib import Path

import frontier
from frontier.store.client import infos
from frontier.store.scripts import SCRIPTS, fragment, included
from tests.harness.cases import each

LUA = files("frontier.store") / "lua"
PACKAGE = Path(frontier.__file__).parent
LONGEST = 60
"""Lines of a script's own file, or of a fragment's, headers included."""


def names_in(directory):
    found = (path.name for path in directory.iterdir())
    return sorted(name.removesuffix(".lua") for name in found if name.endswith(".lua"))


FILES, FRAGMENTS = names_in(LUA), names_in(LUA / "fragments")
in_each_fragment = each("name", FRAGMENTS)
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


@each(
    "path",
    [LUA / f"{name}.lua" for name in FILES]
    + [LUA / "fragments" / f"{name}.lua" for name in FRAGMENTS],
)
def test_a_script_and_a_fragment_can_be_read_at_once(path):
    lines = path.read_text("utf-8").splitlines()

    assert len(lines) <= LONGEST
    assert [line for line in lines if len(line) > 100] == []


def test_every_fragment_is_included_by_a_script_and_by_no_fragment():
    used = {name for script in SCRIPTS.values() for name in included(script.source)}

    assert sorted(used) == FRAGMENTS
    assert [name for name in FRAGMENTS if included(fragment(name))] == []


@in_each_fragment
def test_a_fragment_says_what_it_is_and_declares_what_it_uses(name):
    header, code = split(fragment(name))

    assert re.match(rf"{name}: \S.*\.$", header.splitlines()[0])
    # a function that a script calls is told of
    made = set(re.findall(r"^local function (\w+)", code, re.MULTILINE))
    called = "\n".join(
        text.replace(fragment(name).partition("\n\n")[2], "")
        for text in (one.source for one in SCRIPTS.values())
        if name in included(text)
    )
    for function in made:
        if re.search(rf"\b{function}\(", re.sub(r"--.*", "", called)):
            assert re.search(rf"\b{function}\(", header), function
    used = sorted(set(re.findall(r"(?:KEYS|ARGV)\[\d+\]", re.sub(r"--.*", "", code))))
    declared = re.findall(r"^(?:KEYS|ARGV)\[\d+\](?=  \S)", header, re.MULTILINE)
    assert sorted(declared) == used


@in_each_fragment
def test_a_fragment_calls_the_same_things_the_same(name):
    header, _ = split(fragment(name))
    own = re.findall(r"^((?:KEYS|ARGV)\[\d+\])  (\S+)", header, re.MULTILINE)

    for user in (one for one in SCRIPTS.values() if name in included(one.source)):
        for declared, what in own:
            assert re.search(
                rf"^{re.escape(declared)}  {what}\b", parts(user)[0], re.MULTILINE
            ), (user.name, declared, what)


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
    assert set(infos(db("SCRIPT LOAD", script.source))) == {script.sha}
    assert script.sha == hashlib.sha1(script.source.encode()).hexdigest()


def test_fenced_scripts_begin_with_the_fence():
    for name in ("queue_reserve", "queue_ack", "queue_requeue"):
        _, body = parts(SCRIPTS[name])
        first = body.strip().splitlines()[0]

        assert first == "if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then"


def test_a_seen_mark_and_its_place_in_a_queue_are_one_script():
    push = SCRIPTS["queue_push"]

    for command in ("SADD", "SETBIT", "BITFIELD", "RPUSH"):
        assert f"redis.call('{command}'" in parts(push)[1]
