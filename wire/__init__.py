"""Bytes: names, errors, frames, requests and record batches. Pure: no sockets, no clock, no disk, no logging.

Many files, for each is one thing that is encoded, and all of them share ``names`` and ``errors``:

- what is asked:   ``messages``, ``requests``, ``admin``, ``control``, ``groups``; ``apis`` has all of them
- how it is sent:  ``framing``, ``dialect``, ``native``
- records:         ``batch``, ``payload_check``, ``records`` (``columns``, ``kafka_records``, ``compression``), ``rewriting``
- in groups:       ``consumer_protocol``
"""
