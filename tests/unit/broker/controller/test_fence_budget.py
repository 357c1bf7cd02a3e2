"""A broker behind a bad network is not fenced again and again."""

from ottla.broker.controller.decisions.fence_budget import FENCES, PERIOD_S, FenceBudget


def test_a_broker_may_be_fenced_three_times_in_the_period_and_no_more():
    budget = FenceBudget()
    assert [budget.allow(1, now) for now in range(5)] == [True] * FENCES + [False] * 2


def test_each_broker_has_a_budget_of_its_own():
    budget = FenceBudget()
    for now in range(FENCES):
        assert budget.allow(1, now)
    assert not budget.allow(1, 10)
    assert budget.allow(2, 10)


def test_the_budget_comes_back_with_time_one_by_one():
    budget = FenceBudget()
    for now in (0, 100, 200):
        assert budget.allow(1, now)
    assert not budget.allow(1, PERIOD_S)
    assert budget.allow(1, PERIOD_S + 1)
    assert not budget.allow(1, PERIOD_S + 2)


def test_a_refused_fence_costs_nothing():
    budget = FenceBudget()
    for now in (0, 0, 0):
        assert budget.allow(1, now)
    for now in range(1, 100):
        assert not budget.allow(1, now)
    assert budget.allow(1, PERIOD_S + 1)
