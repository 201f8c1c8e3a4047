"""The formulas that server and client share. numpy only; no clock, no I/O, no state beyond what is passed in.

A cache in an agent's process answers what the server would have answered because both call these
functions on the same numbers.
"""
