"""The fields of Kafka's responses, by api: fields.py says how to read it, tests/support/kafka_tables.py makes it."""

TABLE = """\
2 list_offsets 1-11 flexible 6+
 throttle_time_ms int32 2+
 topics []{} 1+
  name string 1+
  partitions []{} 1+
   partition_index int32 1+
   error_code int16 1+
   timestamp int64 1+ = -1
   offset int64 1+ = -1
   leader_epoch int32 4+ = -1
3 metadata 0-13 flexible 9+
 throttle_time_ms int32 3+
 brokers []{} 0+
  node_id int32 0+
  host string 0+
  port int32 0+
  rack string 1+ null 1+ = null
 cluster_id string 2+ null 2+ = null
 controller_id int32 1+ = -1
 topics []{} 0+
  error_code int16 0+
  name string 0+ null 12+
  topic_id uuid 10+
  is_internal bool 1+
  partitions []{} 0+
   error_code int16 0+
   partition_index int32 0+
   leader_id int32 0+
   leader_epoch int32 7+ = -1
   replica_nodes []int32 0+
   isr_nodes []int32 0+
   offline_replicas []int32 5+
  topic_authorized_operations int32 8+ = -2147483648
 cluster_authorized_operations int32 8-10 = -2147483648
 error_code int16 13+
8 offset_commit 2-10 flexible 8+
 throttle_time_ms int32 3+
 topics []{} 2+
  name string 2-9
  topic_id uuid 10+
  partitions []{} 2+
   partition_index int32 2+
   error_code int16 2+
9 offset_fetch 1-10 flexible 6+
 throttle_time_ms int32 3+
 topics []{} 1-7
  name string 1-7
  partitions []{} 1-7
   partition_index int32 1-7
   committed_offset int64 1-7
   committed_leader_epoch int32 5-7 = -1
   metadata string 1-7 null 1-7
   error_code int16 1-7
 error_code int16 2-7
 groups []{} 8+
  group_id string 8+
  topics []{} 8+
   name string 8-9
   topic_id uuid 10+
   partitions []{} 8+
    partition_index int32 8+
    committed_offset int64 8+
    committed_leader_epoch int32 8+ = -1
    metadata string 8+ null 8+
    error_code int16 8+
  error_code int16 8+
10 find_coordinator 0-6 flexible 3+
 throttle_time_ms int32 1+
 error_code int16 0-3
 error_message string 1-3 null 1-3
 node_id int32 0-3
 host string 0-3
 port int32 0-3
 coordinators []{} 4+
  key string 4+
  node_id int32 4+
  host string 4+
  port int32 4+
  error_code int16 4+
  error_message string 4+ null 4+
11 join_group 0-9 flexible 6+
 throttle_time_ms int32 2+
 error_code int16 0+
 generation_id int32 0+ = -1
 protocol_type string 7+ null 7+ = null
 protocol_name string 0+ null 7+
 leader string 0+
 skip_assignment bool 9+
 member_id string 0+
 members []{} 0+
  member_id string 0+
  group_instance_id string 5+ null 5+ = null
  metadata bytes 0+
12 heartbeat 0-4 flexible 4+
 throttle_time_ms int32 1+
 error_code int16 0+
13 leave_group 0-5 flexible 4+
 throttle_time_ms int32 1+
 error_code int16 0+
 members []{} 3+
  member_id string 3+
  group_instance_id string 3+ null 3+
  error_code int16 3+
14 sync_group 0-5 flexible 4+
 throttle_time_ms int32 1+
 error_code int16 0+
 protocol_type string 5+ null 5+ = null
 protocol_name string 5+ null 5+ = null
 assignment bytes 0+
15 describe_groups 0-6 flexible 5+
 throttle_time_ms int32 1+
 groups []{} 0+
  error_code int16 0+
  error_message string 6+ null 6+ = null
  group_id string 0+
  group_state string 0+
  protocol_type string 0+
  protocol_data string 0+
  members []{} 0+
   member_id string 0+
   group_instance_id string 4+ null 4+ = null
   client_id string 0+
   client_host string 0+
   member_metadata bytes 0+
   member_assignment bytes 0+
  authorized_operations int32 3+ = -2147483648
16 list_groups 0-5 flexible 3+
 throttle_time_ms int32 1+
 error_code int16 0+
 groups []{} 0+
  group_id string 0+
  protocol_type string 0+
  group_state string 4+
  group_type string 5+
17 sasl_handshake 0-1 flexible none
 error_code int16 0+
 mechanisms []string 0+
18 api_versions 0-4 flexible 3+
 error_code int16 0+
 api_keys []{} 0+
  api_key int16 0+
  min_version int16 0+
  max_version int16 0+
 throttle_time_ms int32 1+
 supported_features []{} 3+ tag 0
  name string 3+
  min_version int16 3+
  max_version int16 3+
 finalized_features_epoch int64 3+ tag 1 = -1
 finalized_features []{} 3+ tag 2
  name string 3+
  max_version_level int16 3+
  min_version_level int16 3+
 zk_migration_ready bool 3+ tag 3
19 create_topics 2-7 flexible 5+
 throttle_time_ms int32 2+
 topics []{} 2+
  name string 2+
  topic_id uuid 7+
  error_code int16 2+
  error_message string 2+ null 2+
  topic_config_error_code int16 5+ tag 0
  num_partitions int32 5+ = -1
  replication_factor int16 5+ = -1
  configs []{} 5+ null 5+
   name string 5+
   value string 5+ null 5+
   read_only bool 5+
   config_source int8 5+ = -1
   is_sensitive bool 5+
20 delete_topics 1-6 flexible 4+
 throttle_time_ms int32 1+
 responses []{} 1+
  name string 1+ null 6+
  topic_id uuid 6+
  error_code int16 1+
  error_message string 5+ null 5+ = null
21 delete_records 0-2 flexible 2+
 throttle_time_ms int32 0+
 topics []{} 0+
  name string 0+
  partitions []{} 0+
   partition_index int32 0+
   low_watermark int64 0+
   error_code int16 0+
22 init_producer_id 0-6 flexible 2+
 throttle_time_ms int32 0+
 error_code int16 0+
 producer_id int64 0+ = -1
 producer_epoch int16 0+
 ongoing_txn_producer_id int64 6+ = -1
 ongoing_txn_producer_epoch int16 6+ = -1
23 offset_for_leader_epoch 2-4 flexible 4+
 throttle_time_ms int32 2+
 topics []{} 2+
  topic string 2+
  partitions []{} 2+
   error_code int16 2+
   partition int32 2+
   leader_epoch int32 2+ = -1
   end_offset int64 2+ = -1
"""
