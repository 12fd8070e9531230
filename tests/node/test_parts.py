"""Parts of a project's own, which FRONTIER_NODE_PARTS names."""

import pytest
from owner import push

from frontier.errors import ConfigurationError
from frontier.node.context import Part


class Ledger(Part):
    """Has in a list what its node has stored."""

    lines = ()

    def stored(self, pushes, verdicts):
        self.lines += tuple(zip((push.item for push in pushes), verdicts, strict=True))


NOT_A_PART = "a text"


async def test_part_of_a_project_hears_of_each_push(new_node, servers):
    node = new_node(servers("any"), "a", node_parts=(f"{__name__}.Ledger",))
    await node.open()

    for _ in range(2):
        push(node, b"1", "a.example")
    await node.outbox.flush()
    await node.close()

    verdicts = [verdict for _, verdict in node.parts[Ledger].lines]
    assert verdicts == ["n", "s"]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("no.such.Ledger", "FRONTIER_NODE_PARTS: no.such.Ledger: No module named 'no'"),
        (f"{__name__}.Other", f"{__name__}.Other: .* has no attribute 'Other'"),
        (f"{__name__}.NOT_A_PART", "is not a subclass of frontier.Part"),
        ("pathlib.Path", "is not a subclass of frontier.Part"),
    ],
)
async def test_node_refuses_what_is_no_part(new_node, servers, path, said):
    node = new_node(servers("any"), "a", node_parts=(path,))

    with pytest.raises(ConfigurationError, match=said):
        await node.open()
