"""Text, tables, charts and pages about datasets, studies and fitted models."""
