"""The OpenAPI document of admin REST, and a page of it for people."""
