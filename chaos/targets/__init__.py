"""Clusters that faults are done to: ``local`` has processes of this machine, ``compose`` has containers. One interface."""
