"""Bags: rosbag2 directories with MCAP storage, written crash-safe and read however they ended."""

from sim2real_deploy.bags.reader import Bag
from sim2real_deploy.bags.topic import Message, Qos, Topic
from sim2real_deploy.bags.writer import BagWriter

__all__ = ["Bag", "BagWriter", "Message", "Qos", "Topic"]
