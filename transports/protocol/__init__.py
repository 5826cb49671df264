"""What is said on an established link: frames, messages, and the state machine of each side. Without I/O."""
