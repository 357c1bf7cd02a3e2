"""The fields of Kafka's responses, by api: fields.py says how to read it, tests/support/kafka_tables.py makes it."""

TABLE = """\
32 describe_configs 1-4 flexible 4+
 throttle_time_ms int32 1+
 results []{} 1+
  error_code int16 1+
  error_message string 1+ null 1+
  resource_type int8 1+
  resource_name string 1+
  configs []{} 1+
   name string 1+
   value string 1+ null 1+
   read_only bool 1+
   config_source int8 1+ = -1
   is_sensitive bool 1+
   synonyms []{} 1+
    name string 1+
    value string 1+ null 1+
    source int8 1+
   config_type int8 3+
   documentation string 3+ null 3+
33 alter_configs 0-2 flexible 2+
 throttle_time_ms int32 0+
 responses []{} 0+
  error_code int16 0+
  error_message string 0+ null 0+
  resource_type int8 0+
  resource_name string 0+
34 alter_replica_log_dirs 1-2 flexible 2+
 throttle_time_ms int32 1+
 results []{} 1+
  topic_name string 1+
  partitions []{} 1+
   partition_index int32 1+
   error_code int16 1+
35 describe_log_dirs 1-5 flexible 2+
 throttle_time_ms int32 1+
 error_code int16 3+
 results []{} 1+
  error_code int16 1+
  log_dir string 1+
  topics []{} 1+
   name string 1+
   partitions []{} 1+
    partition_index int32 1+
    partition_size int64 1+
    offset_lag int64 1+
    is_future_key bool 1+
  total_bytes int64 4+ = -1
  usable_bytes int64 4+ = -1
  is_cordoned bool 5+
36 sasl_authenticate 0-2 flexible 2+
 error_code int16 0+
 error_message string 0+ null 0+
 auth_bytes bytes 0+
 session_lifetime_ms int64 1+
37 create_partitions 0-3 flexible 2+
 throttle_time_ms int32 0+
 results []{} 0+
  name string 0+
  error_code int16 0+
  error_message string 0+ null 0+ = null
42 delete_groups 0-2 flexible 2+
 throttle_time_ms int32 0+
 results []{} 0+
  group_id string 0+
  error_code int16 0+
43 elect_leaders 0-2 flexible 2+
 throttle_time_ms int32 0+
 error_code int16 1+
 replica_election_results []{} 0+
  topic string 0+
  partition_result []{} 0+
   partition_id int32 0+
   error_code int16 0+
   error_message string 0+ null 0+
44 incremental_alter_configs 0-1 flexible 1+
 throttle_time_ms int32 0+
 responses []{} 0+
  error_code int16 0+
  error_message string 0+ null 0+
  resource_type int8 0+
  resource_name string 0+
45 alter_partition_reassignments 0-1 flexible 0+
 throttle_time_ms int32 0+
 allow_replication_factor_change bool 1+ = 1
 error_code int16 0+
 error_message string 0+ null 0+
 responses []{} 0+
  name string 0+
  partitions []{} 0+
   partition_index int32 0+
   error_code int16 0+
   error_message string 0+ null 0+
46 list_partition_reassignments 0-0 flexible 0+
 throttle_time_ms int32 0+
 error_code int16 0+
 error_message string 0+ null 0+
 topics []{} 0+
  name string 0+
  partitions []{} 0+
   partition_index int32 0+
   replicas []int32 0+
   adding_replicas []int32 0+
   removing_replicas []int32 0+
47 offset_delete 0-0 flexible none
 error_code int16 0+
 throttle_time_ms int32 0+
 topics []{} 0+
  name string 0+
  partitions []{} 0+
   partition_index int32 0+
   error_code int16 0+
60 describe_cluster 0-2 flexible 0+
 throttle_time_ms int32 0+
 error_code int16 0+
 error_message string 0+ null 0+ = null
 endpoint_type int8 1+ = 1
 cluster_id string 0+
 controller_id int32 0+ = -1
 brokers []{} 0+
  broker_id int32 0+
  host string 0+
  port int32 0+
  rack string 0+ null 0+ = null
  is_fenced bool 2+
 cluster_authorized_operations int32 0+ = -2147483648
61 describe_producers 0-0 flexible 0+
 throttle_time_ms int32 0+
 topics []{} 0+
  name string 0+
  partitions []{} 0+
   partition_index int32 0+
   error_code int16 0+
   error_message string 0+ null 0+ = null
   active_producers []{} 0+
    producer_id int64 0+
    producer_epoch int32 0+
    last_sequence int32 0+ = -1
    last_timestamp int64 0+ = -1
    coordinator_epoch int32 0+
    current_txn_start_offset int64 0+ = -1
68 consumer_group_heartbeat 0-1 flexible 0+
 throttle_time_ms int32 0+
 error_code int16 0+
 error_message string 0+ null 0+ = null
 member_id string 0+ null 0+ = null
 member_epoch int32 0+
 heartbeat_interval_ms int32 0+
 assignment {} 0+ null 0+ = null
  topic_partitions []{} 0+
   topic_id uuid 0+
   partitions []int32 0+
69 consumer_group_describe 0-1 flexible 0+
 throttle_time_ms int32 0+
 groups []{} 0+
  error_code int16 0+
  error_message string 0+ null 0+ = null
  group_id string 0+
  group_state string 0+
  group_epoch int32 0+
  assignment_epoch int32 0+
  assignor_name string 0+
  members []{} 0+
   member_id string 0+
   instance_id string 0+ null 0+ = null
   rack_id string 0+ null 0+ = null
   member_epoch int32 0+
   client_id string 0+
   client_host string 0+
   subscribed_topic_names []string 0+
   subscribed_topic_regex string 0+ null 0+ = null
   assignment {} 0+
    topic_partitions []{} 0+
     topic_id uuid 0+
     topic_name string 0+
     partitions []int32 0+
   target_assignment {} 0+
    topic_partitions []{} 0+
     topic_id uuid 0+
     topic_name string 0+
     partitions []int32 0+
   member_type int8 1+ = -1
  authorized_operations int32 0+ = -2147483648
74 list_config_resources 0-1 flexible 0+
 throttle_time_ms int32 0+
 error_code int16 0+
 config_resources []{} 0+
  resource_name string 0+
  resource_type int8 1+ = 16
75 describe_topic_partitions 0-0 flexible 0+
 throttle_time_ms int32 0+
 topics []{} 0+
  error_code int16 0+
  name string 0+ null 0+
  topic_id uuid 0+
  is_internal bool 0+
  partitions []{} 0+
   error_code int16 0+
   partition_index int32 0+
   leader_id int32 0+
   leader_epoch int32 0+ = -1
   replica_nodes []int32 0+
   isr_nodes []int32 0+
   eligible_leader_replicas []int32 0+ null 0+ = null
   last_known_elr []int32 0+ null 0+ = null
   offline_replicas []int32 0+
  topic_authorized_operations int32 0+ = -2147483648
 next_cursor {} 0+ null 0+ = null
  topic_name string 0+
  partition_index int32 0+
"""
