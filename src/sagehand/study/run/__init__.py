"""Running a study: the plan, one record an item, the manifest, and going on where it stopped."""
