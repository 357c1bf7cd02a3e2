"""Ottla: the little Kafka.

General layout, from the bottom up (imports only ever go down):

- ``ottla.wire``    bytes: frames, requests, record batches, the error table. Pure.
- ``ottla.net``     sockets: the server side and the client side of a connection.
- ``ottla.zk``      ZooKeeper: znodes, the session, membership, election, and a real ensemble for local use.
- ``ottla.broker``  the broker process: storage, replication, controller, api, admin.
- ``ottla.client``  Producer, Consumer, Admin, and their asyncio twins.
- ``ottla.local``   a whole cluster on this machine.
- ``ottla.spark_jobs``  Spark's data source ``format("ottla")``, which needs the client only.
- ``ottla.cli``     the ``ottla`` command.

Each folder stands at the top of the repository; ``src/ottla`` only links to them. ``ottla.compiled`` decides whether
the modules that every record passes through run as C or as the Python they were compiled from.
"""

from ottla import compiled

__version__ = "0.1.0"

compiled.choose()
