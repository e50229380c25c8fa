"""Let people see it: static reports and charts. Reads, never launches.

May import: sweeps, jobs, cluster, models.
"""
