"""Bytes: names, errors, frames, requests and record batches. Pure: no sockets, no clock, no disk, no logging."""
