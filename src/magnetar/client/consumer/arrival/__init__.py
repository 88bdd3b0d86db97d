"""What comes to a consumer: read, or not to be handed to the application."""
