"""The whole system at work in two minutes, with trouble, and a table of what came of it.

    make demo

`orders` says what is sent, `story` makes it happen with real processes, `facts` is what was
seen, `checks` judges it: pure functions that know nothing of how the facts came about.
"""
