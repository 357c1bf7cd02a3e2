"""All that is understood of Kafka's protocol but Produce and Fetch, by api; what is not here is not advertised."""

from ottla.wire.kafka.api import KafkaApi
from ottla.wire.kafka.cluster import CLUSTER_APIS
from ottla.wire.kafka.configs import CONFIG_APIS
from ottla.wire.kafka.consumer_groups import CONSUMER_GROUP_APIS
from ottla.wire.kafka.group_offsets import GROUP_OFFSET_APIS
from ottla.wire.kafka.groups import GROUP_APIS
from ottla.wire.kafka.leadership import LEADERSHIP_APIS
from ottla.wire.kafka.logs import LOG_APIS
from ottla.wire.kafka.offsets import OFFSET_APIS
from ottla.wire.kafka.topics import TOPIC_APIS

APIS: dict[int, KafkaApi] = {
    int(api.key): api
    for api in (
        *CLUSTER_APIS,
        *OFFSET_APIS,
        *GROUP_APIS,
        *GROUP_OFFSET_APIS,
        *CONSUMER_GROUP_APIS,
        *TOPIC_APIS,
        *CONFIG_APIS,
        *LEADERSHIP_APIS,
        *LOG_APIS,
    )
}
