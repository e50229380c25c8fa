"""``python -P -m orchestrator.cli``: the command, where its script is not on the path."""

from orchestrator.cli.main import main

main()
