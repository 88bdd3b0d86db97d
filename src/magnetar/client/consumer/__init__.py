"""The deciding half of a consumer: its queue, permits, redelivery, dead letters and acks."""
