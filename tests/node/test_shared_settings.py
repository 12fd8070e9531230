import pytest
from scrapy.settings import Settings
from scrapy.utils.request import RequestFingerprinter

from frontier.cluster.shared_settings import crawl_settings, fingerprinter_name
from frontier.errors import ConfigurationError
from frontier.settings.config import Config


class Own:
    class Inner:
        pass


def test_a_fingerprinter_has_its_full_name_however_it_is_set():
    scrapys = "scrapy.utils.request.RequestFingerprinter"
    alias = "scrapy.dupefilters.RequestFingerprinter"  # imported there
    for value in (scrapys, alias, RequestFingerprinter, None):
        settings = {"REQUEST_FINGERPRINTER_CLASS": value}
        assert fingerprinter_name(settings) == scrapys
    assert fingerprinter_name({}) == scrapys
    assert fingerprinter_name(dict(Settings())) == scrapys
    named = fingerprinter_name({"REQUEST_FINGERPRINTER_CLASS": Own.Inner})
    assert named == f"{__name__}.Own.Inner"
    shape = crawl_settings(Config(), {"REQUEST_FINGERPRINTER_CLASS": Own})
    assert shape["REQUEST_FINGERPRINTER_CLASS"] == f"{__name__}.Own"


@pytest.mark.parametrize("value", ["", "Own", "no.such.Own", "json.Own", "..", 7])
def test_invalid_fingerprinter_class_is_reported_with_its_setting(value):
    settings = {"REQUEST_FINGERPRINTER_CLASS": value}
    if not value:
        assert fingerprinter_name(settings)
        return
    with pytest.raises(ConfigurationError, match="REQUEST_FINGERPRINTER_CLASS = "):
        fingerprinter_name(settings)
