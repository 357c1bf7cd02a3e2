"""What is on disk, one noun a file. Here the log of one partition; below it `segments` (its files) and `producers` (what it
knows of idempotent ones), above it `data_folder` (all logs of a disk, and the loop that looks after them)."""
