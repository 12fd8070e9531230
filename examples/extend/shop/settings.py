"""Settings of a Scrapy project."""

BOT_NAME = "shop"
SPIDER_MODULES = ["shop.spiders"]
NEWSPIDER_MODULE = "shop.spiders"
ROBOTSTXT_OBEY = True
DOWNLOAD_DELAY = 0.2  # the site is on this machine
ADDONS = {"frontier.addon.Addon": 100}

# What this project plugs in.
FRONTIER_QUEUE_KEY = "shop.extend.server"
ITEM_PIPELINES = {"shop.extend.CountTitles": 300}
DOWNLOADER_MIDDLEWARES = {"shop.extend.SeenElsewhere": 62}
SEEN_ELSEWHERE = "seen.txt"
FRONTIER_NODE_PARTS = "shop.extend.Ledger"
COMMANDS_MODULE = "shop.commands"
