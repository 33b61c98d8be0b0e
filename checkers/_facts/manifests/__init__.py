"""What manifests of the tier name, in columns: a long run has many versions of them, and each names many segments."""
