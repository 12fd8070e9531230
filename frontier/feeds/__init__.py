"""Feeds: sites whose feeds are read again and again, and what is new in them crawled.

A **site** has a name, a wait and feeds. When its wait is over, all its feeds are
fetched in one **round**: what is new in them, the implied pages of a feed that has
something new, and what these pages embed. The round ends when nothing of it is in
progress, and the site waits again. The wait counts from when the round began.

Which sites there are is **configuration**: a file ``feeds.toml`` or an SQL database
with the tables of CrawlRSS, which may change while the crawl runs. The configuration
says what somebody wants; what the crawl has found out (when a feed was last read, which
of its items are known) is in the store, so that every node may die.

`model` is what a configuration has in it, whatever it is read from. `feeds_toml`,
`feeds_sql` and `opml` read it, `sources` says which of them does, and
`frontier.settings.live_source` reads it again while a crawl runs and keeps the last
good state. All of these read files, databases or untrusted XML, so they are called in
threads, never on the event loop.

`parse` makes data of a feed, whatever its format, in linear time; `items` says what of
it is new, and what is remembered for that; `discovery` finds the feeds that a page
names. None of these keeps state, reads the network, or trusts a byte.

The limits of `model` hold for every source. A source that cannot be read, or that says
something that cannot be, never ends a crawl that runs: the crawl goes on with what it
has, and one line of the log says so.
"""
