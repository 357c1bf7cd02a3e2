"""Being a member of a consumer group: ``member_loop`` joins, stays and hands over; ``assignors`` share partitions; ``commits``.

It knows the group's coordinator and nothing of fetching. The consumer gives it what to do with partitions (``hand_over``).
"""
