"""Rules about a consumer group: a partition has one owner, what is committed was read, and neither goes back."""

from collections import defaultdict
from collections.abc import Iterator

from ottla.chaos.checker.violation import Violation, at
from ottla.chaos.history import GroupCommit, History


def owned_twice(history: History) -> Iterator[Violation]:
    """Two members that get records of one partition in the same generation."""
    owners: dict[tuple[int, int], str] = {}
    for poll in history.group_polls:
        first = owners.setdefault((poll.generation, poll.partition), poll.member)
        if first != poll.member:
            what = f"{first} and {poll.member} both read partition {poll.partition} in generation {poll.generation}"
            yield Violation("two owners", what, poll.partition, poll.first, poll.at)


def committed_back(history: History) -> Iterator[Violation]:
    """A commit that was acknowledged for less than one that was acknowledged before it began."""
    for partition, commits in _by_partition(history).items():
        ended = sorted(commits, key=lambda commit: commit.ended)
        stands, taken = 0, 0
        for commit in sorted(commits, key=lambda commit: commit.began):
            while taken < len(ended) and ended[taken].ended < commit.began:
                stands = max(stands, ended[taken].offset)
                taken += 1
            if commit.offset < stands:
                what = f"{commit.member} committed {at(partition, commit.offset)} when {stands} stood already"
                yield Violation("committed back", what, partition, commit.offset, commit.began, commit.ended)


def committed_unread(history: History) -> Iterator[Violation]:
    """A commit past what the group had read by then: whoever takes over would skip records."""
    for partition, commits in _by_partition(history).items():
        polls = sorted((poll for poll in history.group_polls if poll.partition == partition), key=lambda poll: poll.at)
        read, taken = 0, 0
        for commit in sorted(commits, key=lambda commit: commit.began):
            while taken < len(polls) and polls[taken].at <= commit.began:
                poll = polls[taken]
                read = max(read, poll.end) if poll.first <= read else read
                taken += 1
            if commit.offset > read:
                what = f"{commit.member} committed {at(partition, commit.offset)}; read without a gap was {read}"
                yield Violation("committed unread", what, partition, commit.offset, commit.began, commit.ended)


def group_missed(history: History) -> Iterator[Violation]:
    """Records that no member of the group ever got."""
    if not history.group_polls:
        return
    for partition, reads in history.reads.items():
        got: set[int] = set()
        for poll in history.group_polls:
            if poll.partition == partition:
                got.update(range(poll.first, poll.end))
        missing = [read.offset for read in reads if read.offset not in got]
        if missing:
            what = f"no member of the group got {at(partition, missing[0])} and {len(missing) - 1} others"
            yield Violation("missed by the group", what, partition, missing[0])


def _by_partition(history: History) -> dict[int, list[GroupCommit]]:
    commits: dict[int, list[GroupCommit]] = defaultdict(list)
    for commit in history.group_commits:
        commits[commit.partition].append(commit)
    return commits
