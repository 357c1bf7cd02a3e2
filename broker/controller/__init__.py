"""The controller: one broker that decides for all.

What it decides is in ``decisions``, pure. Here are the loops around that, and what is asked of the controller from outside.
"""
