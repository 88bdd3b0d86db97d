"""Where Spark finds `format("magnetar")` by itself: it looks into packages of this kind.

An error here would break the lookup of every Python data source there is, so importing
this raises nothing. Without what `magnetar[spark]` brings there is no source to be found.
"""

import contextlib

with contextlib.suppress(Exception):
    from magnetar.spark.source import MagnetarDataSource

    DefaultSource = MagnetarDataSource
