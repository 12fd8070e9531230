"""Between Scrapy's downloader and the network: what may be sent, and to whom."""
