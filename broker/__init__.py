"""The broker process: storage, replication, controller, api and admin, put together by node.py.

The files here are the joints between those rooms, each small and used by several of them:

- putting together:  ``node``, ``parts``, ``handlers``, ``config``, ``listeners``, ``metrics``, ``gauges``
- this broker among the others:  ``membership_loop``, ``peers``, ``cluster_view``, ``controller_client``
- its disks:  ``data_folders``, ``data_trust``, ``data_loop``
- requests that wait:  ``purgatory``
"""
