"""Crawls to which everything happens that may, and a judge of what came of them.

A *plan* (`plan`) is drawn from a seed: kills, freezes, joins and so on. A
*trial* (`trial`) crawls the built-in site with real processes and makes the
plan happen. Its *facts* are judged (`oracle`): what the site served, what the
archive has, what was reserved in the store at each blow.
"""
