"""What both variants share: a polite crawl that archives every exchange."""

SPIDER_MODULES = ["spiders"]
NEWSPIDER_MODULE = "spiders"

# The one line that makes any spider distributed.
ADDONS = {"frontier.addon.Addon": 100}

# Adds to items which WARC record they come from; first of all pipelines.
ITEM_PIPELINES = {"frontier.pipelines.WarcPipeline": 1}

USER_AGENT = "frontier (+https://example.org/about-this-crawler)"
ROBOTSTXT_OBEY = True
DOWNLOAD_DELAY = 0.5
CONCURRENT_REQUESTS = 32
CONCURRENT_REQUESTS_PER_DOMAIN = 4
COOKIES_ENABLED = False
TELNETCONSOLE_ENABLED = False
LOG_LEVEL = "INFO"
