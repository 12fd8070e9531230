"""A plug-in of pytest: `setup` of plain classes is called, as nose did it."""

import unittest

import pytest


@pytest.fixture(autouse=True)
def _nose_setup(request):
    instance = request.instance
    if not isinstance(instance, unittest.TestCase) and hasattr(instance, "setup"):
        instance.setup()
