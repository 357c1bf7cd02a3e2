"""What a run was like: ``summary`` for programs (json), ``page`` for people (one HTML file that needs nothing else)."""
