"""What runs inside a submission's room: the server, the cells, and the answers to calls.

Everything here may be read by the code that is graded, and needs only the standard library, `course`
and a few plain modules beside it. It knows no test, no model of the module under test and no verdict.
"""
