"""The replicas that this broker holds: who leads them, what is committed, and who waits for that."""
