"""Files of canonicalization rules, and expressions that never end."""

from frontier.cli.output import ExitCode
from frontier.errors import InputBroken, InvalidURL
from frontier.urls.canon.rule_files import read
from frontier.urls.canon.rulesets import named
from tests.hostile.corpus import hostile, hostile_each, refused
from tests.hostile.making import nested

TOP = 'name = "mine"\nbase = "heritrix"\n'


def rule(**facts):
    lines = [f"{name} = '{value}'" for name, value in facts.items()]
    return TOP + "[[rule]]\n" + "\n".join(lines)


REFUSED = {  # name to a file, and what is said of it
    "arrays-of-100000-levels": ("a = " + nested("[\n", "]\n", 100_000), "is not TOML"),
    "tables-of-10000-levels": ("a = " + nested("{a=", "}", 990), "is not TOML"),
    "a-key-of-100000-parts": (".".join("a" * 100_000) + " = 1", "has a line of more"),
    "a-number-of-5000-digits": ("a = " + "9" * 5_000, "has a line of more"),
    "a-day-of-the-13th-month": (TOP + "a = 2020-13-01", "is not TOML"),
    "a-file-of-2-mb": (TOP + "#" * (2 << 20), "has more than"),
    "not-utf-8": (b"name = '\xff'", "is not UTF-8"),
    "a-nul": ("name = 'a\0b'", "is not TOML"),
    "ten-thousand-rules": (TOP + "[[rule]]\nstrip='x'\n" * 10_000, "more than 1,000"),
    "rules-of-a-number": (TOP + "rule = 7", "[[rule]]"),
    "a-name-that-climbs": ('name = "../../x"\nbase = "heritrix"', "needs a name"),
    "a-reference": (rule(strip="(a)\\1*$"), "of RE2"),
    "repeats-of-repeats": (rule(strip="((a{0,99}){0,99}){0,99}b"), "of RE2"),
    "a-character-set-that-runs": (
        rule(transcode="(a)", source="zlib", target="utf-8"),
        "character set",
    ),
    "a-character-set-of-a-path": (
        rule(transcode="(a)", source="../../x", target="utf-8"),
        "character set",
    ),
}


@hostile_each("rules", REFUSED)
def _(given, text, told):
    path = given.file("rules.toml", text)
    with refused(InputBroken, told):
        read(path)
    said = given.command("canon", "explain", "http://a.example/", "--rules", path)
    assert said.code == ExitCode.USAGE
    assert said.err.startswith("frontier: rules.toml") or str(path) in said.err


@hostile("rules/a-thousand-rules-that-overlap-nowhere")
def _(given):
    text = "".join(f"[[rule]]\nstrip='x{n}'\n" for n in range(1_000))
    path = given.file("rules.toml", TOP + text)
    assert len(read(path)["rule"]) == 1_000


@hostile("rules/a-group-that-there-is-not")
def _(given):
    path = given.file("rules.toml", rule(regex="(a)", replace="$9"))
    said = given.command("canon", "explain", "http://a.example/", "--rules", path)
    assert said.code in {ExitCode.OK, ExitCode.USAGE}


LONG = {
    "slashes": "http://a.example" + "/" * 60_000,
    "dots": "http://a.example" + "/.." * 20_000,
    "percents": "http://a.example/" + "%" * 60_000,
    "percents-of-percents": "http://a.example/%" + "25" * 30_000,
    "ampersands": "http://a.example/?" + "&" * 60_000,
    "sessions": "http://a.example/?" + "jsessionid=" * 6_000,
    "semicolons": "http://a.example/" + ";jsessionid=" * 5_000,
    "brackets": "http://a.example/" + "(" * 60_000,
    "asp-sessions": "http://a.example/(s(" + "a" * 60_000,
    "digits": "http://" + "1" * 60_000 + "/",
    "labels": "http://" + "a." * 30_000 + "/",
    "w-and-digits": "http://www" + "1" * 60_000 + ".example/",
    "at-signs": "http://" + "a@" * 30_000 + "a.example/",
    "unicode-hosts": "http://" + "\u00fc" * 30_000 + ".example/",
    "dashes": "http://" + "a-" * 500 + "!/",
    "a-long-label": "http://" + "x" * 64 + "%/",
    "underscores": "http://" + "a." * 900 + "_/",
    "blanks": "http://a.example/" + " " * 60_000,
    "colons": "http://a.example" + ":" * 60_000,
    "hashes": "http://a.example/#" + "!#" * 30_000,
    "utm": "http://a.example/?" + "utm_a=b&" * 7_500,
    "sids": "http://a.example/?" + "sid=" + "a" * 60_000,
}


@hostile_each("canon", LONG)
def _(given, url):
    """Each set of rules takes linear time, whatever comes of it."""
    from frontier.errors import InvalidURL
    from frontier.settings.values import CANON_RULES

    for name in CANON_RULES:
        if name == "scrapy":
            continue
        for text in (url, url[: len(url) // 2]):
            try:
                made = named(name).apply(text)
            except InvalidURL:
                continue
            assert len(made) < 10 * len(text)


SLOW = {"three-stars": "^.*.*.*Z", "plus-in-plus": "(a+)+Z", "one": "a+Z"}


@hostile_each("rules", {f"a-long-url-for-{n}": (p,) for n, p in SLOW.items()})
def _(given, pattern):
    rules = named(str(given.file("rules.toml", rule(strip=pattern))))
    for length in (1, 500, 2_000):
        url = "http://a.example/" + "a" * length
        assert rules.apply(url) == url
    with refused(InvalidURL, "10,000 characters"):
        rules.apply(url * 5)
