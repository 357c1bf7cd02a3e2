"""The broker process: storage, replication, controller, api and admin, put together by node.py."""
