"""Real ZooKeeper servers for this machine: their configuration and command, the Java and the jars they need, free ports."""
