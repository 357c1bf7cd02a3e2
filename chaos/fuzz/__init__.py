"""Mutated and random frames of Kafka's protocol against a live cluster, and what must hold all the same.

Pure are ``schemas`` (every api and version there is), ``requests`` (valid ones), ``batches`` (records that lie), ``mutations``
(how a frame is spoilt), ``attacks`` (a seed and a number in, an attack out) and ``answers`` (what came back). ``attack_loop``
and ``healthy`` are processes of their own; ``decoy`` takes attacks while the brokers are left alone; ``tally`` counts,
``watch`` looks at the brokers, ``stored`` at their logs, ``run`` joins all of it, ``report`` tells.
"""
