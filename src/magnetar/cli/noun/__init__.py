"""Admin commands, one noun per file."""
