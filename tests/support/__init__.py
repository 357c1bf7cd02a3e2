"""What tests share: clusters to test on, clients that do what ours would not, and brokers with a mechanism switched off.

One thing a file, each used by several tests.
"""
