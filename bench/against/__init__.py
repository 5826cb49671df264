"""This tree beside another commit: `python -m bench against REV SUITE...`, both in one run.

A machine's clock, its neighbours and the layout of memory change a time by more than most changes of code
do. So both commits are built, each is run in processes of its own that take turns within milliseconds, and
what is reported is the ratio within a pair, with its interval. Instructions are counted besides, for they
are exact.
"""
