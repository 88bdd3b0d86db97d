"""Why admin REST cannot be reached, and what to do about it."""

import http.client
import ssl

__all__ = ["trouble"]


def trouble(error: Exception, origin: str, option: str) -> str:
    """Returns a clause about the error, and the advice that fits it; `option` is what names the
    URL.

    >>> trouble(http.client.BadStatusLine("x"), "http://h:1", "--admin-url")
    'it does not speak HTTP there; is it a port for clients, or https://h:1?'
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"certificate verify failed: {error.verify_message}; give the CA that signed it, "
            "and use the name that the certificate is for"
        )
    if isinstance(error, ssl.SSLError):
        why = error.reason or str(error)
        return f"no TLS there ({why}); is it {origin.replace('https://', 'http://')}?"
    if isinstance(error, http.client.RemoteDisconnected):
        return (
            f"it closed the connection without an answer; is it up, and is {option} right, or is "
            "that the port for clients?"
        )
    if isinstance(error, http.client.BadStatusLine):
        secure = origin.replace("http://", "https://")
        return f"it does not speak HTTP there; is it a port for clients, or {secure}?"
    why = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return f"{why}; is it up, and is {option} right?"
