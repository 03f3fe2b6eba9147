"""The page in the browser: shows what the node heard, hands on what people press. No ROS here."""
