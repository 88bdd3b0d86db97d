"""`magnetar subscriptions skip`: messages removed by id, with a fallback for Apache Pulsar."""
