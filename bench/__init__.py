"""Measurements: each beside the bare limit of the machine in the same run, for machines differ and are noisy."""
