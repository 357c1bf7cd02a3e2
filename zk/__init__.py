"""ZooKeeper: what stands in it, a session with it, and real servers of it for local use."""
