"""Pictures: the only folder that knows matplotlib; the same data give the same bytes."""
