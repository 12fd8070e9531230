"""``frontier canon``: a URL step by step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.text import Text

from frontier.cli.command import Commands, Output, argument, option, options
from frontier.cli.output import ExitCode, Shown
from frontier.errors import InvalidURL


@options
class ExplainOptions(Output):
    """Which URL, and by which rules."""

    url: str = argument("URL")
    rules: str = option("heritrix", "NAME|FILE", "A rule set by name, or a TOML file.")


def explain(given: ExplainOptions) -> Shown:
    """Show a URL after each step that changes it, and its keys."""
    from frontier.urls.canon.rulesets import named

    url, chosen = given.url, named(given.rules)
    form, steps, refused = url, list[tuple[str, str]](), None
    for name, step in chosen.one_by_one:
        try:
            made = step(form)
        except InvalidURL as error:
            refused = f"{name}: {error.reason}"
            break
        if made != form:
            steps.append((name, made))
        form = made
    said: dict[str, Any] = {"url": url, "rules": chosen.name, "refused": refused}
    said["steps"] = [{"step": name, "url": made} for name, made in steps]
    if refused is None:
        said |= {"seen_key": form, **_keys(url, given.rules)}
    code = ExitCode.OK if refused is None else ExitCode.FAULTY
    return Shown(said, _explained(said), code=code)


def _keys(url: str, rules: str) -> dict[str, str]:
    """The keys under which an index and the queues have *url*."""
    from frontier.urls.canon.rulesets import host_of_origin
    from frontier.urls.canon.surt import key_of
    from frontier.urls.partition import origin_of, queue_key

    try:
        surt = key_of(url)
    except InvalidURL as error:
        surt = f"none: {error.reason}"
    host = host_of_origin(origin_of(url), rules)
    return {"surt": surt, "queue_key": host or queue_key(url, "host")}


def _explained(said: dict[str, Any]) -> Iterator[Text]:
    width = max([len(step["step"]) for step in said["steps"]] + [len("queue key")])
    yield Text(f"{'':{width}}  {said['url']}")
    for step in said["steps"]:
        yield Text(f"{step['step']:{width}}  ", "cyan") + Text(step["url"])
    if said["refused"] is not None:
        yield Text(f"refused by {said['refused']}", "red")
        return
    for name in ("seen key", "surt", "queue key"):
        yield Text(f"{name:{width}}  ", "bold") + Text(said[name.replace(" ", "_")])


app = Commands(
    "Show what canonicalization makes of a URL.",
    {
        "explain": explain,
    },
)
