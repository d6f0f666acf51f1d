"""A simulation that knows the truth, against which every finding is held.

    tests/worlds/run.py --count 2000                         # precision and recall per code, and the first failures
    tests/worlds/run.py --seed 4 --kind reboot --shrink S01  # one world, as small as it shows that

From the ground up: plan (time), mads (bytes), network (what becomes of packets), host (a CA and its QP1), ids, cm_base
and cm (a CM as Linux has it), consumers (programs), truth (who did what), scene, innocent and faults (what happens in a
world), tap (captures), world (all of it, from one seed).
"""
