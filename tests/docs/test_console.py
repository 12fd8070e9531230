"""The runner of pages finds what is wrong with one."""

from pathlib import Path

import pytest

from tests.docs.console import MARK, Page, PageFailed

PAGE = """# A page

Save as `greeting.txt`:

```text
hello
```

Add to `greeting.txt`:

```text
again
```

<!-- figures vary -->
```console
$ cat greeting.txt
hello
again
$ wc -c greeting.txt
99 greeting.txt
$ echo 1,234 of 0.5 kB, 0 lost, 17.
5 of   9 kB, 0 lost, 2.
$ printf 'one\\ntwo\\nthree\\n'
one
...
$ echo a very long line
a ... line
$ false
$ echo $?
1
$ cat <<END
> kept
> END
kept
```

```console
# Not run by our tests: it needs a second machine.
$ ssh HOST
```
"""


@pytest.fixture
def page(tmp_path):
    def make(text):
        path = tmp_path / "page.md"
        path.write_text(text)
        return Page.read(path)

    return make


def block(*lines, how=""):
    return "\n".join([how, "```console", *lines, "```", ""])


def test_a_page_whose_commands_do_what_it_shows(page, tmp_path):
    made = page(PAGE)

    assert made.run(tmp_path) == 8
    assert [each.text for each in made.not_run] == ["ssh HOST"]


@pytest.mark.parametrize(
    "lines",
    [
        ["$ echo one", "two"],
        ["$ printf 'one\\ntwo\\n'", "one"],
        ["$ echo 1", "2"],
        ["$ false"],
        ["$ no-such-command"],
        ["$ false", "$ echo $?", "0"],
        ["$ true", "...", "more"],
    ],
)
def test_wrong_output_fails_and_names_the_line(page, tmp_path, lines):
    with pytest.raises(PageFailed, match=r"page\.md:3: |page\.md:4: "):
        page(block(*lines)).run(tmp_path)


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        ("0 lost", "10 lost"),
        ("0 lost", "0.5 lost"),
        ("0 lost", "no lost"),
        ("388 pages", "0 pages"),
        ("3.9 pages/s", "0.0 pages/s"),
        ("1,234 pages", "0 pages"),
        ("12 of 12", "12 of 0"),
        ("0.5 s", "0 s"),
        ("at 11:00", "at 1,100"),
    ],
)
def test_where_figures_vary_zero_matches_only_zero_and_a_time_a_time(
    page, tmp_path, shown, said
):
    with pytest.raises(PageFailed):
        page(block(f"$ echo {said}", shown, how="<!-- figures vary -->")).run(tmp_path)


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        ("388 pages", "1,204 pages"),
        ("0.9 s", "12.05 s"),
        ("0.0 s", "0.3 s"),
        ("2026-11-23T11:09:15.67Z", "2026-12-01T00:00:00.001Z"),
        ("at 11:09", "at 00:00"),
    ],
)
def test_varying_figures_match_any_other(page, tmp_path, shown, said):
    page(block(f"$ echo {said}", shown, how="<!-- figures vary -->")).run(tmp_path)


def test_a_command_is_repeated_until_it_prints_what_is_shown(page, tmp_path):
    lines = ["$ echo >> count; wc -l < count", "4"]

    page(block(*lines, how="<!-- repeat until so -->")).run(tmp_path)

    assert (tmp_path / "count").read_text() == "\n" * 4


def test_a_page_gets_free_ports_and_keeps_them(page, tmp_path):
    text = "Save as `url`:\n\n```text\nhttp://127.0.0.1:8500/\n```\n"
    lines = ["$ echo --port 8500 > used", "$ cat url", "http://127.0.0.1:8500/"]

    page(text + block(*lines)).run(tmp_path)

    used = (tmp_path / "used").read_text().split()[1]
    assert used != "8500"
    assert (tmp_path / "url").read_text() == f"http://127.0.0.1:{used}/\n"


def test_processes_and_daemons_end_with_their_page(page, tmp_path):
    lines = ["$ sleep 600 &", "$ setsid sleep 600 > /dev/null 2>&1 &", "$ false"]

    with pytest.raises(PageFailed, match="exit code 1"):
        page(block(f"$ echo ${MARK} > mark", *lines)).run(tmp_path)

    wanted = f"{MARK}={(tmp_path / 'mark').read_text().strip()}".encode()
    assert len(wanted) > 32
    assert not [each for each in Path("/proc").iterdir() if wanted in environ(each)]


def environ(process):
    try:
        return (process / "environ").read_bytes()
    except OSError:
        return b""


def test_an_unknown_comment_is_refused(page):
    with pytest.raises(PageFailed, match="figures may vary"):
        page(block("$ true", how="<!-- figures may vary -->"))
