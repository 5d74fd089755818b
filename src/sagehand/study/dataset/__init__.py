"""Folders of labelled pictures for studies: what a sample is, how it is rendered, recorded, and split."""
