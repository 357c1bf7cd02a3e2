"""One data folder (Kafka's log.dirs names them): whose it is, how its last run ended, the logs in it, and their checkpoints."""
