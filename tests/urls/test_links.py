import pytest

from frontier.urls.links import read_links

BASE = "http://a.example/dir/page.html?q=1"


def of_html(markup, url=BASE, **given):
    *parts, _ = read_links(markup, url, is_html=True, **given)
    return [link for part in parts for link in part]


def of_css(text):
    *parts, _ = read_links(text, "http://a.example/css/site.css", is_html=False)
    return [link for part in parts for link in part]


@pytest.mark.parametrize(
    "markup",
    [
        "<a href=x.html>",
        "<map><area href=x.html></map>",
        "<link rel=stylesheet href=x.html>",
        "<img src=x.html>",
        "<script src=x.html></script>",
        "<iframe src=x.html></iframe>",
        "<embed src=x.html>",
        "<picture><source srcset=x.html></picture>",
        "<audio src=x.html></audio>",
        "<video src=x.html></video>",
        "<video poster=x.html></video>",
        "<video><track src=x.html></video>",
        "<object data=x.html></object>",
        "<input type=image src=x.html>",
        "<input type=IMAGE src=x.html>",
        "<body background=x.html>",
        "<svg><image href=x.html></svg>",
        "<svg><use xlink:href='x.html#part'></svg>",
        "<style>p { background: url(x.html) }</style>",
        "<style>@import 'x.html';</style>",
        '<p style="background: url(&quot;x.html&quot;)">',
        "<a href='  x.html\n'>",
        "<a href='x.html#part'>",
        "<a href='./x.html'>",
        "<a href='../dir/x.html'>",
        r"<a href='\dir\x.html'>",
        "<a href='//a.example/dir/x.html'>",
        "<a href='HTTP://a.example/dir/x.html'>",
    ],
)
def test_a_link_is_found_wherever_it_stands(markup):
    assert of_html(markup) == ["http://a.example/dir/x.html"]


@pytest.mark.parametrize(
    "link",
    [
        "",
        "   ",
        "#top",
        "mailto:x@a.example",
        "javascript:void(0)",
        "tel:1",
        "data:image/png;base64,AA==",
        "ftp://a.example/",
        "http://[::1",
    ],
)
def test_link_without_a_web_address_is_skipped_and_the_rest_kept(link):
    markup = f"<a href='{link}'></a><a href='/next'></a>"

    assert of_html(markup) == ["http://a.example/next"]


def test_each_link_comes_once_and_in_order():
    markup = "<a href=b><a href=a><a href=b#x><img src=a><a href=c>"

    assert [url[-1] for url in of_html(markup)] == ["b", "a", "c"]


@pytest.mark.parametrize(
    ("srcset", "names"),
    [
        ("a.jpg", ["a.jpg"]),
        ("a.jpg 1x, b.jpg 2x", ["a.jpg", "b.jpg"]),
        ("a.jpg 480w,\n b.jpg 800w", ["a.jpg", "b.jpg"]),
        ("a.jpg, b.jpg", ["a.jpg", "b.jpg"]),
        ("a,b.jpg 1x, c.jpg", ["a,b.jpg", "c.jpg"]),
        ("a.jpg 1x,", ["a.jpg"]),
        (" , a.jpg", ["a.jpg"]),
        ("data:image/png;base64,AA 1x, a.jpg 2x", ["a.jpg"]),
        ("", []),
    ],
)
def test_a_srcset_has_several(srcset, names):
    expected = [f"http://a.example/dir/{name}" for name in names]

    assert of_html(f"<img srcset='{srcset}'>") == expected
    assert of_html(f"<link imagesrcset='{srcset}'>") == expected


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        ("http://b.example/x/", "http://b.example/x/y"),
        ("/root/", "http://a.example/root/y"),
        ("sub/", "http://a.example/dir/sub/y"),
        ("http://[::1", "http://a.example/dir/y"),
        ("", "http://a.example/dir/y"),
    ],
)
def test_links_are_relative_to_the_base_of_the_page(base, expected):
    assert of_html(f"<head><base href='{base}'></head><a href=y>") == [expected]


def test_a_style_sheet_leads_to_what_it_imports_and_shows():
    text = """
        @import "a.css"; @import url('b.css'); @IMPORT url(c.css) print;
        p { background: url( "d.png" ) } q { src: url(/e.woff), URL('f.woff#x') }
        i { background: url(data:image/png;base64,AA) } j { background: url("") }
    """

    assert of_css(text) == [
        "http://a.example/css/a.css",
        "http://a.example/css/b.css",
        "http://a.example/css/c.css",
        "http://a.example/css/d.png",
        "http://a.example/e.woff",
        "http://a.example/css/f.woff",
    ]


def test_embedded_resources_are_separated_from_page_links():
    page = (
        "<link rel='Stylesheet' href='a.css'><link rel=canonical href=/canonical>"
        "<link rel=next href=/next><link rel='shortcut icon' href=i.ico>"
        "<link href=bare><a href=/link style='background: url(b.png)'>x</a>"
        "<map><area href=/area></map><img src=c.png srcset='d.png 2x'>"
        "<iframe src=/frame></iframe><script src=s.js></script>"
        "<style>@import 'e.css';</style>"
    )
    urls = of_html(page, "http://a.example/", embeds=True)
    found = [url.removeprefix("http://a.example/") for url in urls]

    wanted = ["a.css", "i.ico", "c.png", "d.png", "frame", "s.js", "e.css", "b.png"]
    assert found == wanted
