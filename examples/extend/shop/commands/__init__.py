"""Commands of ``scrapy`` in this project: each is a module of its name."""
