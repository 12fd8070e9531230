"""Benchmarks against the peers, on one server in one run; see README.md."""
