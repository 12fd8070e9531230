"""Changes to the text of ``feeds.toml`` that leave alone what they are not about.

Values and lists of feeds are changed by ``tomlkit``, which keeps comments and blanks.
It puts a new key behind the comments at the end of a table, which are about the next
one, and takes those away with a table. So keys that are new, and whole sites, are lines
that are put in and taken out here. `feeds_toml` reads what was made before it is
written.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from frontier.errors import ConfigurationError
from frontier.feeds.model import Feed, Site, canonical_url, format_wait

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_LINE = 8_192
"""Characters of a line: a URL has half of them at most."""
HEADER = re.compile(r"^[ \t]*\[\[[ \t]*site[ \t]*\]\]")
"""The line with which a site begins."""
_FEED_HEADER = re.compile(r"^[ \t]*\[\[[ \t]*site[ \t]*\.[ \t]*feeds[ \t]*\]\]")
_NAME_LINE = re.compile(
    r"""^[ \t]*name[ \t]*=[ \t]*("[^"]*"|'[^']*')[ \t]*(#.*)?\r?$"""
)


def _tomlkit() -> Any:
    try:
        import tomlkit
    except ImportError:
        raise ConfigurationError(
            "to edit feeds.toml a package is needed; install it with: "
            "pip install 'frontier-crawl[feeds]'"
        ) from None
    return tomlkit


def edited(
    text: str, before: Mapping[str, Site], wanted: Mapping[str, Site | None]
) -> str:
    """*text*, which says the sites *before*, with those of *wanted* in it.

    `None` is for a site that is to go. In each site of *wanted* something differs.

    Raises:
        ConfigurationError: ``tomlkit`` is not installed.
    """
    tomlkit = _tomlkit()
    order = list(before)
    document: Any = tomlkit.parse(text)
    new_keys: dict[int, list[str]] = {}
    lost_feeds: dict[int, list[int]] = {}
    for name, site in wanted.items():
        if site is not None and name in before:
            number = order.index(name)
            table = document["site"][number]
            new_keys[number] = _change_table(table, before[name], site)
            lost_feeds[number] = _change_feeds(table, before[name], site)
    gone = {number for number, name in enumerate(order) if wanted.get(name, 0) is None}
    lines = tomlkit.dumps(document).split("\n")
    end = "\r" if "\r\n" in text else ""
    _put_in_and_take_out(lines, new_keys, lost_feeds, gone, end)
    for name, site in wanted.items():
        if site is not None and name not in before:
            while lines and not lines[-1].strip():
                lines.pop()
            if lines:
                lines[-1] = lines[-1].removesuffix("\r") + end
                lines.append(end)
            lines += [*(line + end for line in _site_lines(site)), ""]
    return "\n".join(lines)


def _put_in_and_take_out(
    lines: list[str],
    new_keys: Mapping[int, list[str]],
    lost_feeds: Mapping[int, list[int]],
    gone: set[int],
    end: str,
) -> None:
    """Put keys into sites by number; take the sites *gone* out, and tables of feeds."""
    starts = [at for at, line in enumerate(lines) if HEADER.match(line)]
    bounds = [*starts, len(lines)]
    for number in range(len(starts) - 1, -1, -1):  # from the end: lines stay in place
        first, last = bounds[number], bounds[number + 1]
        if number in gone:
            lines[first:last] = _comments_behind(lines[first:last])
            continue
        feeds = [at for at in range(first, last) if _FEED_HEADER.match(lines[at])]
        feeds.append(last)
        for lost in lost_feeds.get(number, ()):
            one = slice(feeds[lost], feeds[lost + 1])
            lines[one] = _comments_behind(lines[one])
        if number in new_keys:
            named = (n for n in range(first, last) if _NAME_LINE.match(lines[n]))
            at = next(named, first) + 1
            lines[at:at] = [line + end for line in new_keys[number]]


def _comments_behind(lines: list[str]) -> list[str]:
    """The end of a table's *lines* that is comments: they are about what follows."""
    first = len(lines)
    while first > 1 and (not lines[first - 1].strip() or lines[first - 1][0] == "#"):
        first -= 1
    while first < len(lines) and not lines[first].strip():
        first += 1
    return lines[first:]


def _change_table(table: Any, old: Site, new: Site) -> list[str]:
    """Have *table* say *new*; returns lines of keys that it did not have."""
    lines = []
    fixed = new.wait_max_s == new.wait_s
    wait_max = None if fixed else format_wait(new.wait_max_s)
    values: dict[str, tuple[object, object]] = {
        "wait": (old.wait_s != new.wait_s, format_wait(new.wait_s)),
        "wait_max": (
            (old.wait_s, old.wait_max_s) != (new.wait_s, new.wait_max_s),
            wait_max,
        ),
        "paused": (old.paused != new.paused, new.paused),
        "ended": (old.ended != new.ended, new.ended),
    }
    for key, (changed, value) in values.items():
        if not changed:
            continue
        if value is None:
            table.pop(key, None)
        elif key in table:
            table[key] = value
        elif value is not False:
            lines.append(f"{key} = {_toml(value)}")
    if "feeds" not in table and new.feeds:
        lines += _feed_lines(new.feeds)
    return lines


def _change_feeds(table: Any, old: Site, new: Site) -> list[int]:
    """Have the feeds in *table* be those of *new*, in whichever form they are.

    Returns the numbers of tables that are to go, from the last on.
    """
    from tomlkit.items import AoT

    entries = table.get("feeds")
    if entries is None or old.feeds == new.feeds:
        return []
    wanted = {feed.url: feed for feed in new.feeds}
    had = {feed.url: feed for feed in old.feeds}
    lost = []
    for number in range(len(entries) - 1, -1, -1):
        entry = entries[number]
        url = canonical_url(str(entry if isinstance(entry, str) else entry["url"]))
        if url not in wanted:
            lost.append(number)
        elif wanted[url] != had[url] and isinstance(entries, AoT):
            entry["implied"] = list(wanted[url].implied)
        elif wanted[url] != had[url]:
            entries[number] = _entry(wanted[url], as_table=False)
    if not isinstance(entries, AoT):
        for number in lost:
            del entries[number]
        lost = []
    for url, feed in wanted.items():
        if url in had:
            continue
        entry = _entry(feed, as_table=isinstance(entries, AoT))
        if not isinstance(entries, AoT) and "\n" in entries.as_string():
            indent = re.search(r"\n([ \t]+)\S", entries.as_string())
            entries.add_line(entry, indent=indent[1] if indent else "  ")
        else:
            entries.append(entry)
    return lost


def _entry(feed: Feed, *, as_table: bool) -> Any:
    import tomlkit

    if not as_table and not feed.implied:
        return feed.url
    made: Any = tomlkit.table() if as_table else tomlkit.inline_table()
    made["url"] = feed.url
    if feed.implied:
        made["implied"] = list(feed.implied)
    return made


def _site_lines(site: Site) -> list[str]:
    """A site as it is written where there was none."""
    lines = ["[[site]]", f"name = {_toml(site.name)}"]
    lines.append(f"wait = {_toml(format_wait(site.wait_s))}")
    if site.wait_max_s != site.wait_s:
        lines.append(f"wait_max = {_toml(format_wait(site.wait_max_s))}")
    lines += [f"{key} = true" for key in ("paused", "ended") if getattr(site, key)]
    return lines + _feed_lines(site.feeds)


def _feed_lines(feeds: tuple[Feed, ...]) -> list[str]:
    lines = ["feeds = ["]
    for feed in feeds:
        if not feed.implied:
            lines.append(f"  {_toml(feed.url)},")
            continue
        pages = ", ".join(map(_toml, feed.implied))
        entry = f"  {{ url = {_toml(feed.url)}, implied = [{pages}] }},"
        if len(entry) <= MAX_LINE:
            lines.append(entry)
            continue
        lines.append(f"  {{ url = {_toml(feed.url)}, implied = [")
        lines += [f"    {_toml(page)}," for page in feed.implied]
        lines.append("  ] },")
    return [*lines, "]"]


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
