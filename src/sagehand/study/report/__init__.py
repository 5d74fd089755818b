"""What came out: the counterparts of the paper's tables and figures, galleries of failures, paired comparisons."""
