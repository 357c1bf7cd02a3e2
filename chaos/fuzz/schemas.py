"""The fields of every api that Kafka's clients may ask for, Produce and Fetch too, and the versions that are advertised."""

from typing import Final

from ottla.wire.kafka import fetch, produce
from ottla.wire.kafka.apis import APIS
from ottla.wire.kafka.fields import Schema, parse_schema, request_schema, response_schema
from ottla.wire.kafka.refused import REFUSED

PRODUCE: Final = 0
FETCH: Final = 1
METADATA: Final = 3
API_VERSIONS: Final = 18
DESCRIBE_CONFIGS: Final = 32

PRODUCE_OLDEST: Final = 3
"""The versions before are advertised for old clients' sake, and have no fields in Kafka's schemas any more."""

_REQUESTS = {
    PRODUCE: """\
0 produce 3-13 flexible 9+
 transactional_id string 3+ null 3+ = null
 acks int16 3+
 timeout_ms int32 3+
 topic_data []{} 3+
  name string 3-12
  topic_id uuid 13+
  partition_data []{} 3+
   index int32 3+
   records bytes 3+ null 3+""",
    FETCH: """\
1 fetch 4-18 flexible 12+
 cluster_id string 12+ null 12+ tag 0 = null
 replica_id int32 4-14 = -1
 replica_state {} 15+ tag 1
  replica_id int32 15+ = -1
  replica_epoch int64 15+ = -1
 max_wait_ms int32 4+
 min_bytes int32 4+
 max_bytes int32 4+ = 2147483647
 isolation_level int8 4+
 session_id int32 7+
 session_epoch int32 7+ = -1
 topics []{} 4+
  topic string 4-12
  topic_id uuid 13+
  partitions []{} 4+
   partition int32 4+
   current_leader_epoch int32 9+ = -1
   fetch_offset int64 4+
   last_fetched_epoch int32 12+ = -1
   log_start_offset int64 5+ = -1
   partition_max_bytes int32 4+
   replica_directory_id uuid 17+ tag 0
   high_watermark int64 18+ tag 1 = 9223372036854775807
 forgotten_topics_data []{} 7+
  topic string 7-12
  topic_id uuid 13+
  partitions []int32 7+
 rack_id string 11+""",
}

_RESPONSES = {
    PRODUCE: """\
0 produce 3-13 flexible 9+
 responses []{} 3+
  name string 3-12
  topic_id uuid 13+
  partition_responses []{} 3+
   index int32 3+
   error_code int16 3+
   base_offset int64 3+
   log_append_time_ms int64 3+
   log_start_offset int64 5+ = -1
   record_errors []{} 8+
    batch_index int32 8+
    batch_index_error_message string 8+ null 8+ = null
   error_message string 8+ null 8+ = null
   current_leader {} 10+ tag 0
    leader_id int32 10+ = -1
    leader_epoch int32 10+ = -1
 throttle_time_ms int32 3+
 node_endpoints []{} 10+ tag 0
  node_id int32 10+
  host string 10+
  port int32 10+
  rack string 10+ null 10+ = null""",
    FETCH: """\
1 fetch 4-18 flexible 12+
 throttle_time_ms int32 4+
 error_code int16 7+
 session_id int32 7+
 responses []{} 4+
  topic string 4-12
  topic_id uuid 13+
  partitions []{} 4+
   partition_index int32 4+
   error_code int16 4+
   high_watermark int64 4+
   last_stable_offset int64 4+ = -1
   log_start_offset int64 5+ = -1
   diverging_epoch {} 12+ tag 0
    epoch int32 12+ = -1
    end_offset int64 12+ = -1
   current_leader {} 12+ tag 1
    leader_id int32 12+ = -1
    leader_epoch int32 12+ = -1
   snapshot_id {} 12+ tag 2
    end_offset int64 12+ = -1
    epoch int32 12+ = -1
   aborted_transactions []{} 4+ null 4+
    producer_id int64 4+
    first_offset int64 4+
   preferred_read_replica int32 11+ = -1
   records bytes 4+ null 4+
 node_endpoints []{} 16+ tag 0
  node_id int32 16+
  host string 16+
  port int32 16+
  rack string 16+ null 16+ = null""",
}

_REQUEST = {api: parse_schema(text.splitlines()) for api, text in _REQUESTS.items()}
_RESPONSE = {api: parse_schema(text.splitlines()) for api, text in _RESPONSES.items()}

VERSIONS: Final[dict[int, range]] = {
    PRODUCE: range(PRODUCE_OLDEST, produce.NEWEST + 1),
    FETCH: range(fetch.OLDEST, fetch.NEWEST + 1),
    **{api.key: range(api.oldest, api.newest + 1) for api in APIS.values()},
    **REFUSED,
}
"""What is advertised, by api."""


def schema_of_request(api: int) -> Schema:
    return _REQUEST[api] if api in _REQUEST else request_schema(api)


def schema_of_response(api: int) -> Schema:
    return _RESPONSE[api] if api in _RESPONSE else response_schema(api)
