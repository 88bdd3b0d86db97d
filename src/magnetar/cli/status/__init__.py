"""Commands for whoever looks after a broker: `status`, `top`, and the columns of `topics list`."""
