"""ROS 2 nodes: thin rclpy shells around the layers below. The only place that imports rclpy."""
