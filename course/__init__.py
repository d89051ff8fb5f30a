"""What students import: the contract, the module list, the engine, workloads and pictures.

Nothing here knows how work is graded or what the reference solutions look like.
"""
