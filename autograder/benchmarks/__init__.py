"""Benchmarks: what a rule about cost costs. Each measures ratios within one run; none is part of a check."""
