"""One file a kind of report: what its page says, computed from results; nothing here draws or writes."""
