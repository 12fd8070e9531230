"""Configurations of sites as tests want them: a file, and a database of CrawlRSS's."""

import json
from itertools import count

from frontier.feeds.model import Feed, sites_of

CRAWLRSS = """
create table Site (id int4 not null, Active bool, LastFeedUpdate timestamp,
  MinWaitPeriod varchar(255), Name varchar(255), primary key (id));
create table Feed (id int4 not null, LastDigest varchar(255), LastFetchTime timestamp,
  MostRecentlySeen timestamp, URI varchar(255), Site int4 references Site,
  primary key (id));
create table ImpliedPage (id int4 not null, URI varchar(255),
  Site int4 references Site, primary key (id));
create table FeedPage (Feed int4 not null references Feed,
  Page int4 not null references ImpliedPage, primary key (Feed, Page))
"""
"""What Hibernate makes of CrawlRSS's classes for PostgreSQL; SQLite takes it, too."""
OURS = """
alter table Site add column MaxWaitPeriod varchar(255);
alter table Site add column Paused boolean
"""


def site_of(name, feeds=(), wait="1h", wait_max=None, **states):
    """A site as a configuration says it; a feed is a URL, or a `Feed`."""
    listed = [one._asdict() if isinstance(one, Feed) else {"url": one} for one in feeds]
    for feed in listed:
        feed["implied"] = list(feed.get("implied", ()))
    table = {"name": name, "wait": wait, "wait_max": wait_max or wait}
    table |= {"feeds": listed, **states}

    def refuse(_, __, reason):
        raise ValueError(reason)

    return sites_of([table], refuse)[name]


def write_toml(path, *sites):
    """Have the file *path* say *sites* and nothing else."""
    text = ""
    for site in sites:
        feeds = (
            f"{{ url = {json.dumps(url)}, implied = {json.dumps(pages)} }}"
            for url, pages in site.feeds
        )
        text += (
            f"[[site]]\nname = {json.dumps(site.name)}\nwait = {site.wait_s}\n"
            f"wait_max = {site.wait_max_s}\npaused = {json.dumps(site.paused)}\n"
            f"ended = {json.dumps(site.ended)}\nfeeds = [{', '.join(feeds)}]\n"
        )
    path.write_text(text, "utf-8")


def make_tables(run):
    """Make the tables, with our columns; *run* runs statements of SQL."""
    run(*CRAWLRSS.split(";"), *OURS.split(";"))


def write_rows(run, *sites):
    """Have the tables say *sites* and nothing else."""
    numbers, statements = count(1), []

    def insert(table, **values):
        quoted = {
            name: str(value).lower() if isinstance(value, bool | int) else f"'{value}'"
            for name, value in values.items()
        }
        names = ", ".join(quoted)
        statements.append(
            f"insert into {table} ({names}) values ({', '.join(quoted.values())})"
        )

    statements += [f"delete from {t}" for t in ("FeedPage", "ImpliedPage", "Feed")]
    statements.append("delete from Site")
    for site in sites:
        number = next(numbers)
        insert(
            "Site",
            id=number,
            Name=site.name,
            MinWaitPeriod=f"{site.wait_s}s",
            MaxWaitPeriod=f"{site.wait_max_s}s",
            Active=not site.ended,
            Paused=site.paused,
        )
        for feed in site.feeds:
            of_feed = next(numbers)
            insert("Feed", id=of_feed, URI=feed.url, Site=number)
            for url in feed.implied:
                page = next(numbers)
                insert("ImpliedPage", id=page, URI=url, Site=number)
                insert("FeedPage", Feed=of_feed, Page=page)
    run(*statements)
