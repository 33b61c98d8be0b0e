"""Many runs that belong together: they are shared among workers, each leaves one row, and whatever ends them they go
on."""
