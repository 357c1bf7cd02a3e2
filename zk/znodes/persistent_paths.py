"""The znodes that every cluster has from its start."""

PERSISTENT_PATHS = (
    "/consumers",
    "/brokers/ids",
    "/brokers/topics",
    "/brokers/epochs",
    "/brokers/data",
    "/brokers/clocks",
    "/brokers/seqid",
    "/config/changes",
    "/config/topics",
    "/config/clients",
    "/config/users",
    "/config/brokers",
    "/config/groups",
    "/config/ips",
    "/admin/delete_topics",
    "/isr_change_notification",
    "/log_dir_event_notification",
    "/latest_producer_id_block",
    "/producers",
    "/producers_ended",
    "/cluster",
    "/ottla",
)
"""What a broker makes sure of when it starts; parents are made on the way."""
