"""Databases that have no tables yet: SQLite, and PostgreSQL."""

import contextlib
import sqlite3

import pytest

from tests.postgres import Fresh


@pytest.fixture
def sqlite(tmp_path):
    """An SQLite database that is not there yet."""
    path = tmp_path / "feeds.db"

    def run(*statements):
        with contextlib.closing(sqlite3.connect(path)) as connection, connection:
            for statement in statements:
                found = connection.execute(statement).fetchall()
            return found

    return Fresh(f"sqlite:///{path}", run)


@pytest.fixture(params=["sqlite", "postgres"])
def database(request):
    """An empty database of either kind."""
    return request.getfixturevalue(request.param)
