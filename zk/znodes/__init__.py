"""One class per znode: its path, how it is written and how it is read. A file per subject; Kafka's layout and JSON. Pure.

Ours are /brokers/epochs/<id>, whose *znode version* is the broker epoch (Kafka's czxid cannot be used in a conditional
write), /brokers/data/<id> and /ottla/secret. Readers ignore keys they do not know and accept the older payloads that Kafka
wrote. What stands below /consumers/<group> will be ``consumers``.
"""
