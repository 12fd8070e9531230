"""Settings of a Scrapy project."""

BOT_NAME = "articles"
SPIDER_MODULES = ["articles.spiders"]
NEWSPIDER_MODULE = "articles.spiders"
ROBOTSTXT_OBEY = True
DOWNLOAD_DELAY = 0.2  # the site is on this machine
FEEDS = {"items/%(frontier_node)s.jsonl": {"format": "jsonlines"}}

# The line that makes it distributed.
ADDONS = {"frontier.addon.Addon": 100}
