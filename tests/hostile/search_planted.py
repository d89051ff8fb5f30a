"""No trick: what a search must find, in every place where one looks. It shows that the searches are worth something."""

# %% needles
# %%
import os
import sys

PLANTED = NEEDLES[0][::-1]


def planted():
    return [PLANTED]


planted.__doc__ = PLANTED
os.environ["PLANTED"] = PLANTED
sys.argv.append(PLANTED)
with open("/tmp/planted", "w") as file:
    file.write(PLANTED)
