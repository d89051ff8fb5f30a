"""os._exit(0) while the cells run: a process that ends well is no pass."""

# %%
import os

os._exit(0)

# %% wrong
