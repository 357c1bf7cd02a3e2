"""What the controller decides. All of it pure: state and events in, actions out; no clock, no log, no waiting.

Read ``cluster`` (what is known) and ``actions`` (what can be wanted) first, then ``state``, where every event enters. The other
files are one decision each, and short; they share the first two and little else, so they stay side by side:

- who leads:          ``leaders``, ``election``, ``election_results``, ``unreachable_leaders``
- how partitions move: ``reassignment``
- what may be asked:  ``requests``, with ``placement`` and ``configs``
- what brokers hear:  ``orders``, and ``pieces`` of orders that are too long
- who is dead:        ``fence_guard``, ``fence_budget``
"""
