"""The way of a record in: ``subscription`` knows what is wanted, ``fetch_loop`` fetches it, ``inbox`` keeps it for its reader.

Which partitions are wanted is a user's word (subscribe, assign). A group's will come through ``subscription`` too: its member
(``client/groups``, to come) hands partitions over there and asks there for the positions to commit.
"""
