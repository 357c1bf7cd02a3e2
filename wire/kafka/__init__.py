"""Kafka's own protocol, on the same port: the messages of apis.py in Kafka's bytes, so that any Kafka client is served.

``dialect`` is the front, ``apis`` the table of what is understood, in which versions, and who reads and writes it. Produce and
Fetch are read and written by hand (``produce``, ``fetch``, with ``primitives``), everything else by Kafka's own tables of
fields (``request_fields``, ``response_fields``, ``later_response_fields``, which ``fields`` explains and ``schemas``
reads and writes by): ``cluster``, ``offsets``, ``groups``, ``group_offsets``, ``topics``, ``configs``, ``leadership``,
``logs``. ``batches`` tells which records must be converted.
"""
