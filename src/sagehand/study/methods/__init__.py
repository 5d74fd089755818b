"""The methods of a study, each behind one seam: a labelled picture's file in, an answer out."""
