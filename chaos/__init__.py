"""Faults on a live cluster, a workload that goes on meanwhile, and a checker of everything that both have seen.

``checker`` is pure: a history in, violations out. ``schedule`` and ``scenarios`` are pure too: what happens when, from a
seed. ``targets`` do things to clusters, ``run`` puts all together, ``report`` tells.

Here stand the parts of one run, which know each other and are of no use alone: faults (``faults``, ``schedule``, ``scenarios``,
``victims``, ``nemesis``, ``topic_faults``), the net between the nodes (``proxy``, ``links``), and those who look on
(``workload``, ``readers``, ``watcher``, ``replicas``, ``history``).
"""
