"""What everything speaks in: arrays, errors, faces, partitions, guarantees, geometry."""
