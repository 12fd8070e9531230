"""Instances of a project's classes, as they are after the store."""

import http
import importlib
import sys
import textwrap
from collections import OrderedDict

import msgpack
import pytest
from scrapy.settings import Settings

from frontier.errors import CodecError, NotSerializable
from frontier.queue import item as codec
from frontier.queue.item import Codec
from frontier.requests.stored_request import ItemClasses
from tests.harness.same import same

ITEMS = """
    import dataclasses, enum, functools, typing
    from collections import namedtuple
    import attrs, scrapy
    from elsewhere import Foreign
    from subprocess import Popen


    @dataclasses.dataclass
    class Product:
        name: str
        prices: list = dataclasses.field(default_factory=list)
        length: int = dataclasses.field(init=False)
        made: typing.ClassVar[int] = 0

        def __post_init__(self):
            self.length = len(self.name)
            type(self).made += 1

        @functools.cached_property
        def first(self):
            return self.prices[0]


    @dataclasses.dataclass(frozen=True, slots=True)
    class Key:
        host: str
        number: int


    @dataclasses.dataclass
    class Special(Product):
        reason: str = ""


    @dataclasses.dataclass
    class Pair(typing.Generic[typing.TypeVar("T")]):
        a: int
        b: int


    @dataclasses.dataclass
    class Listed(list):
        name: str


    @attrs.define
    class Offer:
        sku: str
        _secret: int = 0


    @attrs.frozen(slots=False)
    class Tag:
        text: str


    class Page(scrapy.Item):
        url = scrapy.Field()
        title = scrapy.Field()

        def __init__(self, given, *args):
            super().__init__(*args)
            self["url"] = given


    class Color(enum.Enum):
        RED = "r"
        BLUE = "b"
        ROT = RED


    class Level(enum.IntEnum):
        LOW = 1


    class Word(enum.StrEnum):
        YES = "yes"


    class Bits(enum.Flag):
        A = 1
        B = 2


    Point = namedtuple("Point", "x y")


    class Span(typing.NamedTuple):
        begin: int
        end: int = 0


    class Plain:
        pass


    class Loose(tuple):
        pass


    class Outer:
        @dataclasses.dataclass
        class Inner:
            n: int


    def local():
        @dataclasses.dataclass
        class Local:
            n: int

        return Local(1)
"""


@pytest.fixture(scope="module")
def items(tmp_path_factory):
    """A module of a project, in a package, and one beside it."""
    root = tmp_path_factory.mktemp("project")
    (root / "shop").mkdir()
    (root / "shop" / "__init__.py").write_text("")
    (root / "shop" / "items.py").write_text(textwrap.dedent(ITEMS))
    foreign = "import dataclasses\n@dataclasses.dataclass\nclass Foreign:\n    n: int\n"
    (root / "elsewhere.py").write_text(foreign)
    loud = "raise SystemExit('imported')"
    for name in ("deleting", "shop/__main__", "shop/leaving"):
        (root / f"{name}.py").write_text(loud)
    sys.path.insert(0, str(root))
    yield importlib.import_module("shop.items")
    sys.path.remove(str(root))
    for name in ("shop.items", "shop", "elsewhere"):
        del sys.modules[name]


@pytest.fixture
def codec_of(items):
    return lambda *modules: Codec(ItemClasses(modules))


@pytest.fixture
def there_and_back(codec_of):
    def there_and_back(value):
        one, other = codec_of("shop"), codec_of("shop.items")
        item = one.encode({"url": "u", "meta": {"value": value}})
        return other.decode(item)["meta"]["value"]

    return there_and_back


VALUES = {
    "dataclass": lambda m: m.Product("a", [1, (2,), {"x": m.Key("h", 1)}]),
    "frozen slots": lambda m: m.Key("h", 2),
    "subclass": lambda m: m.Special("a", reason="r"),
    "generic": lambda m: m.Pair[int](1, 2),
    "attrs": lambda m: m.Offer("s", 5),
    "attrs frozen": lambda m: m.Tag("t"),
    "item": lambda m: m.Page("u", {"title": m.Tag("t")}),
    "enum": lambda m: m.Color.ROT,
    "flag": lambda m: m.Bits.B,
    "int enum": lambda m: m.Level.LOW,
    "str enum": lambda m: m.Word.YES,
    "namedtuple": lambda m: m.Point(1, (2, 3)),
    "typed namedtuple": lambda m: m.Span(1),
    "nested class": lambda m: m.Outer.Inner(3),
    "keys": lambda m: {m.Key("h", 1): m.Color.RED, m.Level.LOW: 1, None: 2, True: 3},
    "members": lambda m: {m.Point(1, 2), m.Color.BLUE},
    "ordered": lambda m: OrderedDict([("b", m.Product("x")), ("a", b"y")]),
}


@pytest.mark.parametrize("name", VALUES)
def test_an_instance_is_the_same_after_the_store(items, there_and_back, name):
    value = VALUES[name](items)

    assert same(there_and_back(value), value)


def test_a_member_of_an_enumeration_is_that_member(items, there_and_back):
    assert there_and_back(items.Color.RED) is items.Color.RED
    assert there_and_back(items.Level.LOW) is items.Level.LOW


def test_no_constructor_runs(items, there_and_back):
    product = items.Product("name")
    made, product.length = items.Product.made, 99

    assert there_and_back(product).length == 99
    assert items.Product.made == made


def test_cached_property_is_computed_again_after_the_store(items, there_and_back):
    product = items.Product("name", [7])
    assert product.first == 7

    again = there_and_back(product)
    assert "first" not in vars(again)
    assert again.first == 7


def with_more(value):
    value.more = 1
    return value


def without_a_field(product):
    del product.name
    return product


REFUSED = {
    "another module": (lambda m: m.Foreign(1), "FRONTIER_ITEM_MODULES"),
    "standard library": (lambda m: http.HTTPStatus.OK, "FRONTIER_ITEM_MODULES"),
    "local": (lambda m: m.local(), "is not in a module"),
    "more": (lambda m: with_more(m.Product("a")), "more than its fields: more"),
    "less": (lambda m: without_a_field(m.Product("a")), "without its field name"),
    "list": (lambda m: m.Listed("a"), "is a shop.items.Listed"),
    "no data": (lambda m: m.Plain(), "is a shop.items.Plain"),
    "loose tuple": (lambda m: m.Loose(), "is a shop.items.Loose"),
    "flags together": (lambda m: m.Bits.A | m.Bits.B, "none of its members"),
    "class": (lambda m: m.Product, "is a builtins.type"),
    "object within": (lambda m: m.Product("a", [m.Plain()]), "shop.items.Plain"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_object_that_cannot_round_trip_is_refused_with_a_reason(items, codec_of, name):
    make, reason = REFUSED[name]

    with pytest.raises(NotSerializable, match=reason) as caught:
        codec_of("shop").encode({"url": "u", "cb_kwargs": {"k": make(items)}})
    assert caught.value.where == "cb_kwargs['k']"


def test_a_class_that_was_replaced_is_refused(items, codec_of, monkeypatch):
    old = items.Key("h", 1)
    monkeypatch.setattr(items, "Key", type("Key", (items.Key,), {}))

    with pytest.raises(NotSerializable):
        codec_of("shop").encode({"url": "u", "meta": {"k": old}})


def hostile(module, name, content=None):
    inner = msgpack.packb([module, name, content])
    value = msgpack.ExtType(codec._NAMED_CLASS, inner)
    return b"0" + bytes([codec.VERSION]) + msgpack.packb({"url": "u", "x": value})


@pytest.mark.parametrize(
    ("module", "name", "content"),
    [
        ("deleting", "X", {}),
        ("shop.__main__", "X", {}),
        ("shop.leaving", "X", {}),
        ("shop.nosuch", "X", {}),
        ("shop..items", "Key", {}),
        (".items", "Key", {}),
        ("", "", {}),
        ("shop.items", "", {}),
        ("shop.items", "Key.__init__", {}),
        ("shop.items", "Popen", {"args": "true"}),
        ("shop.items", "dataclasses.Field", {}),
        ("shop.items", "Foreign", {"n": 1}),
        ("elsewhere", "Foreign", {"n": 1}),
        ("shop.items", "Plain", {}),
        ("shop.items", "Listed", {"name": "a"}),
        ("shop.items", "local", {}),
        ("shop.items", "Key", {"host": "h"}),
        ("shop.items", "Key", {"host": "h", "number": 1, "__class__": 1}),
        ("shop.items", "Key", [1, 2]),
        ("shop.items", "Key", None),
        ("shop.items", "Page", {"nosuch": 1}),
        ("shop.items", "Page", 5),
        ("shop.items", "Color", "r"),
        ("shop.items", "Color", []),
        ("shop.items", "Color", "__class__"),
        ("shop.items", "Bits", 4),
        ("shop.items", "Bits", "C"),
        ("shop.items", "Point", [1]),
        ("shop.items", "Point", {"x": 1, "y": 2}),
        ("os", "system", ["true"]),
        ("builtins", "eval", "1"),
        (5, "Key", {}),
        ([], {}, {}),
        (b"shop.items", "Key", {}),
        ("shop.items", None, {}),
        ("shop." * 5_000 + "x", "X", {}),
    ],
)
def test_a_hostile_item_imports_and_makes_nothing(codec_of, module, name, content):
    with pytest.raises(CodecError):
        codec_of("shop").decode(hostile(module, name, content))
    assert not {"deleting", "shop.__main__", "shop.leaving"} & set(sys.modules)


def test_refused_class_error_names_the_class_and_the_setting(codec_of):
    with pytest.raises(CodecError, match=r"os\.system, and FRONTIER_ITEM_MODULES"):
        codec_of("shop").decode(hostile("os", "system"))


@pytest.mark.parametrize(
    "inner", [[], [1, 2], ["a", "b", "c", "d"], "text", {"a": 1}, None]
)
def test_an_instance_without_a_class_is_refused(codec_of, inner):
    value = msgpack.ExtType(codec._NAMED_CLASS, msgpack.packb(inner))
    item = b"0" + bytes([codec.VERSION]) + msgpack.packb({"url": "u", "x": value})

    for one in (codec_of("shop").decode, codec.decode):
        with pytest.raises(CodecError):
            one(item)


def test_item_is_read_without_looking_up_its_classes(items, codec_of):
    meta = {items.Key("h", 1): {items.Color.RED}, "page": items.Page("u")}
    item = codec_of("shop").encode({"url": "http://a.example/", "meta": meta})

    record = codec.decode(item)
    assert record["url"] == "http://a.example/"
    assert record["meta"]["page"].endswith(".Page")


def test_objects_in_each_other_are_stored_as_deep_as_they_can_be_read(items, codec_of):
    value = None
    for _ in range(codec.MAX_DEPTH):
        value = items.Tag(value)
    one = codec_of("shop")
    assert one.decode(one.encode({"url": "u", "meta": {"v": value}}))

    for depth in (1, 3_000):
        for _ in range(depth):
            value = items.Tag(value)
        with pytest.raises(NotSerializable):
            one.encode({"url": "u", "meta": {"v": value}})


def test_the_modules_are_those_of_the_project_unless_they_are_named():
    class Own:
        pass

    Own.__module__ = "own.spiders.first"
    settings = Settings({"SPIDER_MODULES": ["shop.spiders", "crawls"]})
    by_default = ItemClasses.of((), settings, Own())
    named = ItemClasses.of(("acme.items",), settings, Own())

    for module in ("shop", "shop.items", "crawls.x", "own.items"):
        assert by_default._allows(module)
        assert not named._allows(module)
    for module in ("shopping", "os", "acme", "spiders"):
        assert not by_default._allows(module)
    assert named._allows("acme.items")
    assert named._allows("acme.items.more")
    assert not named._allows("acme.itemsets")
