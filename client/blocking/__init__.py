"""The blocking twins: the same names as the asyncio clients', for code that has no event loop.

Each drives its asyncio twin on the process's loop thread (``client/loop_thread.py``). What is called for every record (send,
poll) does its work in the calling thread and does not wait for the other one.
"""
