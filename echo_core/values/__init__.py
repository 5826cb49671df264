"""What all layers speak of and none owns: backlogs and their policies, notices, statistics."""
