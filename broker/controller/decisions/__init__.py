"""What the controller decides. All of it pure: state and events in, actions out; no clock, no log, no waiting.

Read ``cluster`` (what is known) and ``actions`` (what can be wanted) first, then ``state``, where every event enters.
"""
