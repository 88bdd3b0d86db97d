"""Names of topics, subscriptions and namespaces: completed by the shell, and put right."""
