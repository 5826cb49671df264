"""Components that systems want again and again, made of channels as users' own are."""
