"""C declarations: read into formats, and written from them."""
