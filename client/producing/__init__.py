"""The way of a record out: ``outbox`` picks a partition, ``accumulator`` gathers batches, ``sender`` sends them.

Callers' threads go as far as the accumulator; everything behind it runs on the event loop. ``sequences`` numbers batches,
``fates`` decides what becomes of them, ``delivery`` is what a caller holds meanwhile.
"""
