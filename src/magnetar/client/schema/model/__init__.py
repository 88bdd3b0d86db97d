"""Classes that people have as schemas: dataclasses, msgspec structs and Pydantic models."""
