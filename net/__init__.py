"""Sockets: the server's side of a connection, the client's side, and how long to wait before trying again.

The server's side is ``server``, ``connection``, ``answers``, ``reply``, ``peer`` and ``principal``; the client's is ``channel``
and ``exchange``. The other files are small and serve both (``socket_options``, ``busy_poll``, ``heap``, ``timer``, ``retry``).
"""
