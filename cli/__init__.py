"""The ``ottla`` command.

A file for each of its words, as ``--help`` lists them, and what they share: ``options``, ``connection``, ``output``,
``errors``, ``records``, ``segments`` and ``start_offsets``. ``main`` puts them together.
"""
