"""The ``ottla`` command."""
