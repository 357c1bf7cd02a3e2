"""What a log knows of idempotent producers, so that a batch which is sent twice is stored once."""
