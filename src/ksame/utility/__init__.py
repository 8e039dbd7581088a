"""What is left of the data: measures of a release beside the originals it was made from [S 7, G5 5.3]."""
