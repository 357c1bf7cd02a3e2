"""Who leads next."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.controller.decisions.election import Leadership, elect
from ottla.wire.names import NO_LEADER

brokers = st.sets(st.integers(1, 6))


def test_the_first_live_isr_member_in_assignment_order_leads():
    assert elect([3, 1, 2], isr=(2, 1), live={1, 2, 3}).leader == 1


def test_a_live_replica_that_is_not_in_sync_does_not_lead():
    assert elect([1, 2, 3], isr=(1,), live={2, 3}) == Leadership(NO_LEADER, (1,), ())


def test_the_dead_leave_the_isr():
    assert elect([1, 2, 3], isr=(3, 2, 1), live={2, 3}) == Leadership(2, (3, 2), ())


def test_the_isr_stays_as_it_is_when_none_of_it_lives():
    assert elect([1, 2, 3], isr=(2, 1), live={3}).isr == (2, 1)


def test_those_that_leave_too_few_behind_stay_eligible():
    assert elect([1, 2, 3], isr=(1, 2, 3), live={3}, min_insync=2) == Leadership(3, (3,), (1, 2))


def test_those_that_leave_enough_behind_are_not_eligible():
    assert elect([1, 2, 3], isr=(1, 2, 3), live={2, 3}, min_insync=2).elr == ()


def test_an_eligible_replica_leads_when_the_isr_is_dead():
    assert elect([1, 2, 3], isr=(1,), live={3, 2}, elr=(3, 2), min_insync=2) == Leadership(2, (2,), (3,))


def test_anybody_leads_where_unclean_election_is_allowed_and_alone():
    assert elect([1, 2, 3], isr=(1,), live={3}, unclean=True) == Leadership(3, (3,), ())


@given(st.permutations([1, 2, 3, 4]), brokers, brokers, brokers, st.integers(1, 3), st.booleans())
def test_no_election_empties_the_isr_or_lets_a_stranger_lead(replicas, isr, live, elr, min_insync, unclean):
    known = tuple(broker for broker in replicas if broker in isr) or (replicas[0],)
    elr = tuple(broker for broker in replicas if broker in elr and broker not in known)
    found = elect(replicas, known, live, elr=elr, min_insync=min_insync, unclean=unclean)
    assert found.isr
    assert not set(found.isr) & set(found.elr)
    if found.leader != NO_LEADER:
        assert found.leader in live
        assert found.leader in found.isr
        assert unclean or found.leader in {*known, *elr}
    else:
        assert not live & set(known)
