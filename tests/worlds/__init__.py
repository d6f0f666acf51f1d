"""A simulation that knows the truth, against which every finding is held.

    tests/worlds/run.py --count 2000                         # precision and recall per code, and the first failures
    tests/worlds/run.py --seed 4 --kind reboot --shrink S01  # one world: what happened, what was captured, what was said

From the ground up: mads (bytes), network (what becomes of packets), host (a CA and its QP1), cm (a CM as Linux has it),
consumers (programs), truth (who did what), scenes (what goes wrong), tap (captures), world (all of it, from one seed).
"""
