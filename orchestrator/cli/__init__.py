"""The command ``orchestrate``: one file per verb, each imported only when it runs."""
