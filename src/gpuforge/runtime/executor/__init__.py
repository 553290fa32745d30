"""Many calls: mapped over items in batches."""
