"""The second port: health and metrics over HTTP."""
