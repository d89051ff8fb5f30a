"""Builtins patched: everything is an instance, a subclass, equal, and of the same type."""

# %%
import builtins
import dataclasses

builtins.isinstance = builtins.issubclass = builtins.hasattr = builtins.callable = lambda *args: True
builtins.all = builtins.any = lambda values: True
builtins.len = lambda thing: 0
builtins.repr = builtins.str = lambda *args: "passed"
builtins.sorted = builtins.list = builtins.tuple = lambda *args, **kwargs: ()
builtins.open = builtins.compile = builtins.exec = builtins.eval = builtins.print = lambda *args, **kwargs: None
builtins.__import__ = lambda *args, **kwargs: None
builtins.type = lambda *args: int
dataclasses.fields = dataclasses.asdict = dataclasses.replace = lambda *args, **kwargs: ()

# %% wrong
