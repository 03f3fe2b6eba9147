"""Is this computer, link, robot and policy fit to walk?"""
