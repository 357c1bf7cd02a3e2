"""Sockets: the server's side of a connection, the client's side, and how long to wait before trying again."""
