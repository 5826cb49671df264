"""Plans and classes as LLVM IR."""
