"""Types and errors that every package uses: arrays, faces, partitions, guarantees, geometry."""
