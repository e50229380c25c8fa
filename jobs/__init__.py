"""What a run is: carry out attempts of runs on a node and record the facts.

May import: models. A stranger to cluster.
"""
