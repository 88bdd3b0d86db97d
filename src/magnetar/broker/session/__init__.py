"""Sessions: the conversation with one client, command by command."""
