"""What a file of rows becomes when it is decoded, known before it is: a few kilobytes may hold a billion equal rows.

The file of a run from elsewhere may say anything of itself, so what is counted here is what the decoders go by: the
headers of pages (Parquet) and of messages (Arrow IPC), not the totals in a footer.
"""
