"""Routes of namespaces beside those of namespaces.py: bundles, properties, groups."""
