"""Turn facts into tables: Parquet for people and reports, MLflow through an outbox."""
