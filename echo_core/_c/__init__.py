"""The compiled modules; `native/` has their sources, the .pyi files beside this one what they offer."""
