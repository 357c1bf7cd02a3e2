"""What ``ottla zookeeper acl`` says of what it found."""

import pytest

from ottla.cli.zookeeper import _tell
from ottla.zk.tree_acl import TreeReport


@pytest.mark.parametrize(
    ("report", "changed", "line"),
    [
        (TreeReport(right=1, changed=1), True, "1 znode is closed now, 1 was before"),
        (TreeReport(right=0, changed=2), True, "2 znodes are closed now, 0 were before"),
        (TreeReport(right=1, wrong=["/a"]), False, "1 znode is closed, 1 is not"),
        (TreeReport(right=7), False, "7 znodes are closed, 0 are not"),
    ],
)
def test_one_is_not_many(
    report: TreeReport, changed: bool, line: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    _tell(report, "closed", changed=changed)
    assert capfdbinary.readouterr().out.decode().splitlines()[0] == line
