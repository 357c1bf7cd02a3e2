"""Measurements: each beside the bare limit of the machine in the same run, for machines differ and are noisy.

A file for each thing that is measured (``one_broker``, ``three_brokers``, ``partitions``, ``groups``, ``failover``,
``event_loop``, ``codec``, ``peer``, ``spark`` with ``spark_sink`` and ``spark_ceiling``); what they share: ``limit`` (the bare
machine), ``workloads``, ``processes_cpu`` (who used the cores) and ``rows`` (the table).
"""
