"""The tests that a good student would write, one file a module: they know the contract, and no implementation."""
