"""What a producer's event loop does with the batches of the accumulator.

``sender`` sends them, under the numbers that ``sequences`` gives; ``delivery_decision`` decides what becomes of a batch when
its answer comes or never will, and ``batch_completion`` carries that out. ``send_loop`` has the tasks around it all.
"""
