"""What a broker answers: one file for each kind of request, as many as there are kinds.

In front of them ``dispatch``, ``routes`` (all of them, in a table) and ``who_may``; ``parts`` and ``later`` are what they
share. What only the controller answers is in ``controller``.
"""
