"""Field paths of ROS messages, as plotting tools write them."""

import re
from importlib import import_module


def message_field(kind: str, path: str) -> str:
    """The type of a field such as `pose/pose/position/x` or `data[3]`; none is an error."""
    for part in path.split("/"):
        package, _, name = kind.replace("/msg/", "/").partition("/")
        fields = getattr(import_module(f"{package}.msg"), name).get_fields_and_field_types()
        field, bracket, _ = part.partition("[")
        assert field in fields, f"{kind} has no field '{field}'"
        kind = fields[field]
        array = re.fullmatch(r"sequence<(\w+(?:/\w+)?)>|(\w+(?:/\w+)?)\[\d+\]", kind)
        assert bool(array) == bool(bracket), f"{part}: {kind}"
        if array:
            kind = array.group(1) or array.group(2)
    return kind
