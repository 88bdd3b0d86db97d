"""What can be asked of admin REST, one noun per file, as plans that either sender carries out."""
