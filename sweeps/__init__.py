"""Design experiments and analyse them: YAML to run specs, result tables to comparisons.

May import: jobs, cluster, models.
"""
