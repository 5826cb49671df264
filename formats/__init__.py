"""What an event looks like: types, layouts, metadata, tokens, and how two of them compare.

Pure data. Nothing here opens a file or a socket, and nothing here generates code.
"""
