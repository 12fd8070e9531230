"""The runner of pages finds what is wrong with one."""

import pytest

from tests.docs.console import Page, PageFailed
from tests.harness.cases import each

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


WRONG = {
    "": [
        ["$ echo one", "two"],
        ["$ printf 'one\\ntwo\\n'", "one"],
        ["$ echo 1", "2"],
        ["$ false"],
        ["$ false", "$ echo $?", "0"],
        ["$ true", "...", "more"],
    ],
    "<!-- figures vary -->": [
        ["$ echo 10 lost", "0 lost"],
        ["$ echo no lost", "0 lost"],
        ["$ echo 0.0 pages/s", "3.9 pages/s"],
        ["$ echo at 1,100", "at 11:00"],
    ],
}
"""What a block may not show, by how it is compared."""


@each(("how", "lines"), [(how, lines) for how in WRONG for lines in WRONG[how]])
def test_wrong_output_fails_and_names_the_line(page, tmp_path, how, lines):
    with pytest.raises(PageFailed, match=r"page\.md:3: |page\.md:4: "):
        page(block(*lines, how=how)).run(tmp_path)
