"""Methods that are trained on the study's own pictures: image classifiers and a fine-tuned VLM (paper A §4.4)."""
