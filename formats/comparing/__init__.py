"""What a sender's format becomes for a receiver: which fields meet, and what becomes of each."""
