"""Feeds: sites whose feeds are read again and again, and what is new in them crawled.

A **site** has a name, a wait and feeds. When its wait is over, all its feeds are
fetched in one **round**, with what is new in them, the implied pages of a feed that has
something new, and what these pages embed. The round ends when all its feeds have
answered, or else when the next is due. The wait counts from when the round began.

Which sites there are is **configuration**: a file ``feeds.toml`` or an SQL database
with the tables of CrawlRSS, which may change while the crawl runs. The configuration
says what somebody wants; what the crawl has found out (when a feed was last read, which
of its items are known) is in the store, so that any node may die.

`model` is the content of a configuration, whatever it is read from. `feeds_toml`,
`feeds_sql` and `opml` read it, `sources` chooses between them, and
`frontier.settings.live_source` reads it again while a crawl runs and keeps the last
good state. All of these read files, databases or untrusted XML, so they are called in
threads, never on the event loop.

`parse` turns a feed of any format into data, in linear time; `items` says what in it is
new, and what to remember for that. Neither keeps state, reads the network, or trusts a
byte.

The limits of `model` hold for every source. A source that cannot be read, or that says
something invalid, never ends a running crawl: the crawl goes on with what it has, and
one line of the log says so.
"""
