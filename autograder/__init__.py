"""How work is judged: named tests, planted bugs, flat models, and the grading of one submission or a class.

Everything here imports `course`; nothing here imports a reference solution into a graded path.
"""
