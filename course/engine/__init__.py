"""The engine: a small Llama-family model over paged K and V, and the scheduler that feeds it.

It knows a `BlockSpace` and a pool by the contract alone, whoever wrote them. Importing this package is
cheap: torch is imported by the modules that compute, when one of them is first used.
"""
