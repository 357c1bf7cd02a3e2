"""The way of a record out: ``outbox`` picks a partition, ``accumulator`` gathers batches, ``sending`` sends them.

Callers' threads go as far as the accumulator; everything behind it runs on the event loop. ``delivery`` is what a caller
holds meanwhile.
"""
