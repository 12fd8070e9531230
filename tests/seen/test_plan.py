import pytest

from frontier.errors import ConfigurationError
from frontier.seen.plan import count_of, forecast, planned


def test_numbers_are_read_as_people_write_them():
    written = {"1": 1, "2000": 2_000, "50M": 50_000_000, "1.5b": 1_500_000_000}
    written |= {" 20k ": 20_000, ".5m": 500_000, "1,000_000": 10**6, "1T": 10**12}
    for text, count in written.items():
        assert count_of(text) == count
    for text in (
        "",
        "\u0665",
        *["x", "50X", "-5", "0", "0.2", "1e6", "2T", "M", "99999999999999"],
    ):
        with pytest.raises(ConfigurationError, match="number of URLs"):
            count_of(text)


def test_more_generations_than_can_work_are_refused():
    config = planned(10, 1e-15, "recent,bloom", 1)
    with pytest.raises(ConfigurationError, match="recent,set"):
        forecast(config, 10**12, 1)


def test_a_plan_has_the_bytes_of_what_is_in_the_store():
    urls, sizes = 400_000, {}
    for tiers in ("recent,set", "recent,bloom", "recent,bloom,set"):
        config = planned(urls, 0.01, tiers, 100)
        spread, single = forecast(config, urls, 100), forecast(config, urls, 1)
        sizes[tiers] = spread.store_bytes
        assert (spread.one_partition, single.one_partition) == (False, True)
        assert spread.bytes_per_url == spread.store_bytes / urls
        assert (spread.lost, single.lost) == (0, 0) or tiers == "recent,bloom"

    assert sizes["recent,set"] == 100 * (8 * 4_000 + 20 * 130)
    assert sizes["recent,bloom"] < 2 * urls
    assert sizes["recent,bloom,set"] == sizes["recent,set"] + sizes["recent,bloom"]
    few = forecast(planned(urls, 0.01, "recent,set", 100), 5, 100)
    assert few.store_bytes == 5 * (8 + 130)  # an empty partition costs nothing
