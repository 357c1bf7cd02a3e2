"""Faults on a live cluster, a workload that goes on meanwhile, and a checker of everything that both have seen.

``checker`` is pure: a history in, violations out. ``schedule`` and ``scenarios`` are pure too: what happens when, from a
seed. ``targets`` do things to clusters, ``run`` puts all together, ``report`` tells.
"""
