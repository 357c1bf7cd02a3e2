"""Consumer groups, on the coordinator's side. ``membership`` decides where members assign, ``consumer_membership`` where the
coordinator does; the loops around them keep what they decided in ZooKeeper.

A group's coordinator is one of the live brokers, found by a hash (``coordinator``). What it knows of the group it has read from
the group's znode and written there. Every write checks that znode's version, so that of two brokers that both believe to
coordinate a group one can write nothing, and therefore tells nobody anything that counts [I22].
"""
