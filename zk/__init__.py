"""ZooKeeper: what stands in it, a session with it, and real servers of it for local use.

- ``znodes``    one class per znode.
- ``session``   the connection; the only room that knows kazoo.
- ``ensemble``  servers for local use.
- here          what brokers and controllers do with them: membership, election, topics and their metadata, access lists.
"""
