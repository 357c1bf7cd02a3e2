"""The files of a log: segments of record batches, end to end, each with its sparse indexes and the way it is read."""
