"""Make what is observed match what is desired; owns the command ``orchestrate``.

May import: dashboards, sweeps, jobs, cluster, models.
"""
