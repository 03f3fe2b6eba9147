"""The page in the browser: shows what the node hears, passes on what people press. No ROS."""
