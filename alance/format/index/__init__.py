"""Files of scalar indices: what their bytes say, without reading them."""
