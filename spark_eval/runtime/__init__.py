"""Finding a Java, quiet sessions, and a cluster on this machine."""
