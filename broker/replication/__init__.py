"""The replicas that this broker holds: who leads them, what is committed, and who waits for that.

``state`` and ``partition`` decide, ``partitions`` has all of them. Most of the other files are one small loop each, for one
thing that takes its time: fetching, the ISR in ZooKeeper, flushing, failed disks, damaged batches, shortages, log starts.
"""
