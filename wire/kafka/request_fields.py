"""The fields of Kafka's requests, by api: fields.py says how to read it, tests/support/kafka_tables.py makes it."""

TABLE = """\
2 list_offsets 1-11 flexible 6+
 replica_id int32 1+
 isolation_level int8 2+
 topics []{} 1+
  name string 1+
  partitions []{} 1+
   partition_index int32 1+
   current_leader_epoch int32 4+ = -1
   timestamp int64 1+
 timeout_ms int32 10+
3 metadata 0-13 flexible 9+
 topics []{} 0+ null 1+
  topic_id uuid 10+
  name string 0+ null 10+
 allow_auto_topic_creation bool 4+ = 1
 include_cluster_authorized_operations bool 8-10
 include_topic_authorized_operations bool 8+
8 offset_commit 2-10 flexible 8+
 group_id string 2+
 generation_id_or_member_epoch int32 2+ = -1
 member_id string 2+
 retention_time_ms int64 2-4 = -1
 group_instance_id string 7+ null 7+ = null
 topics []{} 2+
  name string 2-9
  topic_id uuid 10+
  partitions []{} 2+
   partition_index int32 2+
   committed_offset int64 2+
   committed_leader_epoch int32 6+ = -1
   committed_metadata string 2+ null 2+
9 offset_fetch 1-10 flexible 6+
 group_id string 1-7
 topics []{} 1-7 null 2-7
  name string 1-7
  partition_indexes []int32 1-7
 groups []{} 8+
  group_id string 8+
  member_id string 9+ null 9+ = null
  member_epoch int32 9+ = -1
  topics []{} 8+ null 8+
   name string 8-9
   topic_id uuid 10+
   partition_indexes []int32 8+
 require_stable bool 7+
10 find_coordinator 0-6 flexible 3+
 key string 0-3
 key_type int8 1+
 coordinator_keys []string 4+
11 join_group 0-9 flexible 6+
 group_id string 0+
 session_timeout_ms int32 0+
 rebalance_timeout_ms int32 1+ = -1
 member_id string 0+
 group_instance_id string 5+ null 5+ = null
 protocol_type string 0+
 protocols []{} 0+
  name string 0+
  metadata bytes 0+
 reason string 8+ null 8+ = null
12 heartbeat 0-4 flexible 4+
 group_id string 0+
 generation_id int32 0+
 member_id string 0+
 group_instance_id string 3+ null 3+ = null
13 leave_group 0-5 flexible 4+
 group_id string 0+
 member_id string 0-2
 members []{} 3+
  member_id string 3+
  group_instance_id string 3+ null 3+ = null
  reason string 5+ null 5+ = null
14 sync_group 0-5 flexible 4+
 group_id string 0+
 generation_id int32 0+
 member_id string 0+
 group_instance_id string 3+ null 3+ = null
 protocol_type string 5+ null 5+ = null
 protocol_name string 5+ null 5+ = null
 assignments []{} 0+
  member_id string 0+
  assignment bytes 0+
15 describe_groups 0-6 flexible 5+
 groups []string 0+
 include_authorized_operations bool 3+
16 list_groups 0-5 flexible 3+
 states_filter []string 4+
 types_filter []string 5+
17 sasl_handshake 0-1 flexible none
 mechanism string 0+
18 api_versions 0-4 flexible 3+
 client_software_name string 3+
 client_software_version string 3+
19 create_topics 2-7 flexible 5+
 topics []{} 2+
  name string 2+
  num_partitions int32 2+
  replication_factor int16 2+
  assignments []{} 2+
   partition_index int32 2+
   broker_ids []int32 2+
  configs []{} 2+
   name string 2+
   value string 2+ null 2+
 timeout_ms int32 2+ = 60000
 validate_only bool 2+
20 delete_topics 1-6 flexible 4+
 topic_names []string 1-5
 topics []{} 6+
  name string 6+ null 6+ = null
  topic_id uuid 6+
 timeout_ms int32 1+
21 delete_records 0-2 flexible 2+
 topics []{} 0+
  name string 0+
  partitions []{} 0+
   partition_index int32 0+
   offset int64 0+
 timeout_ms int32 0+
22 init_producer_id 0-6 flexible 2+
 transactional_id string 0+ null 0+
 transaction_timeout_ms int32 0+
 producer_id int64 3+ = -1
 producer_epoch int16 3+ = -1
 enable2_pc bool 6+
 keep_prepared_txn bool 6+
23 offset_for_leader_epoch 2-4 flexible 4+
 replica_id int32 3+ = -2
 topics []{} 2+
  topic string 2+
  partitions []{} 2+
   partition int32 2+
   current_leader_epoch int32 2+ = -1
   leader_epoch int32 2+
32 describe_configs 1-4 flexible 4+
 resources []{} 1+
  resource_type int8 1+
  resource_name string 1+
  configuration_keys []string 1+ null 1+
 include_synonyms bool 1+
 include_documentation bool 3+
33 alter_configs 0-2 flexible 2+
 resources []{} 0+
  resource_type int8 0+
  resource_name string 0+
  configs []{} 0+
   name string 0+
   value string 0+ null 0+
 validate_only bool 0+
34 alter_replica_log_dirs 1-2 flexible 2+
 dirs []{} 1+
  path string 1+
  topics []{} 1+
   name string 1+
   partitions []int32 1+
35 describe_log_dirs 1-5 flexible 2+
 topics []{} 1+ null 1+
  topic string 1+
  partitions []int32 1+
36 sasl_authenticate 0-2 flexible 2+
 auth_bytes bytes 0+
37 create_partitions 0-3 flexible 2+
 topics []{} 0+
  name string 0+
  count int32 0+
  assignments []{} 0+ null 0+
   broker_ids []int32 0+
 timeout_ms int32 0+
 validate_only bool 0+
42 delete_groups 0-2 flexible 2+
 groups_names []string 0+
43 elect_leaders 0-2 flexible 2+
 election_type int8 1+
 topic_partitions []{} 0+ null 0+
  topic string 0+
  partitions []int32 0+
 timeout_ms int32 0+ = 60000
44 incremental_alter_configs 0-1 flexible 1+
 resources []{} 0+
  resource_type int8 0+
  resource_name string 0+
  configs []{} 0+
   name string 0+
   config_operation int8 0+
   value string 0+ null 0+
 validate_only bool 0+
45 alter_partition_reassignments 0-1 flexible 0+
 timeout_ms int32 0+ = 60000
 allow_replication_factor_change bool 1+ = 1
 topics []{} 0+
  name string 0+
  partitions []{} 0+
   partition_index int32 0+
   replicas []int32 0+ null 0+ = null
46 list_partition_reassignments 0-0 flexible 0+
 timeout_ms int32 0+ = 60000
 topics []{} 0+ null 0+
  name string 0+
  partition_indexes []int32 0+
47 offset_delete 0-0 flexible none
 group_id string 0+
 topics []{} 0+
  name string 0+
  partitions []{} 0+
   partition_index int32 0+
60 describe_cluster 0-2 flexible 0+
 include_cluster_authorized_operations bool 0+
 endpoint_type int8 1+ = 1
 include_fenced_brokers bool 2+
61 describe_producers 0-0 flexible 0+
 topics []{} 0+
  name string 0+
  partition_indexes []int32 0+
68 consumer_group_heartbeat 0-1 flexible 0+
 group_id string 0+
 member_id string 0+
 member_epoch int32 0+
 instance_id string 0+ null 0+ = null
 rack_id string 0+ null 0+ = null
 rebalance_timeout_ms int32 0+ = -1
 subscribed_topic_names []string 0+ null 0+ = null
 subscribed_topic_regex string 1+ null 1+ = null
 server_assignor string 0+ null 0+ = null
 topic_partitions []{} 0+ null 0+
  topic_id uuid 0+
  partitions []int32 0+
69 consumer_group_describe 0-1 flexible 0+
 group_ids []string 0+
 include_authorized_operations bool 0+
74 list_config_resources 0-1 flexible 0+
 resource_types []int8 1+
75 describe_topic_partitions 0-0 flexible 0+
 topics []{} 0+
  name string 0+
 response_partition_limit int32 0+ = 2000
 cursor {} 0+ null 0+ = null
  topic_name string 0+
  partition_index int32 0+
"""
