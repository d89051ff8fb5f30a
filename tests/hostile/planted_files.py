"""A wrong notebook that counts on what lies beside it: a conftest, ini files, and modules with known names."""

# %%
try:
    import conftest
    import sitecustomize
except ImportError:
    pass


# %% wrong
# %% own tests
def test_nothing():
    assert False
