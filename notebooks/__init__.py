"""The notebooks, one folder an assignment as nbgrader wants them: text to review, and what is built from it."""
