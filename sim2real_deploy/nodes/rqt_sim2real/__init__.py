"""The rqt plugin: the stack at a glance, and a STOP. Loaded by rqt through plugin.xml.

`model.py` decides what is shown and needs neither Qt nor ROS; `client.py` talks to the stack;
`panel.py` and `graph.py` are Qt, `stop_window.py` is STOP in a process of its own, embedded by
`stop_button.py`; `plugin.py` joins them inside rqt.
"""
