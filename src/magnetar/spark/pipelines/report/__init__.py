"""What pipelines tell: counts, and the reports made of them."""
