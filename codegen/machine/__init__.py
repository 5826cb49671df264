"""LLVM IR to machine code in memory, with a cache on disk."""
