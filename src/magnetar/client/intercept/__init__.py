"""Interceptors: functions of an application's that see each message on its way."""
