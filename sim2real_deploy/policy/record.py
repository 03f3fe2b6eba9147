"""The contract embedded in the network's file, so that the two cannot drift apart.

Exporters and importers write it; the file's hash covers it. A policy.yaml edited by hand then
contradicts its network and is refused, naming the field.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from sim2real_deploy import configfile
from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.contract import Contract

KEY = "contract"
NOT_RECORDED = {"golden", "sha256"}  # they depend on the finished file
_METADATA = 14 << 3 | 2  # field 14 of ONNX's ModelProto, metadata_props, length-delimited


def embed(model: bytes, contract: Contract) -> bytes:
    """Append the record to an ONNX file: in protobuf, appended bytes are further entries."""
    claims = contract.model_dump(mode="json", exclude=NOT_RECORDED)
    text = json.dumps(claims, sort_keys=True)
    return attach(model, KEY, text)


def attach(model: bytes, key: str, text: str) -> bytes:
    """Append one string to the metadata of an ONNX file."""
    entry = _field(1 << 3 | 2, key.encode()) + _field(2 << 3 | 2, text.encode())
    return model + _field(_METADATA, entry)


def check(contract: Contract, metadata: Mapping[str, str], where: str) -> None:
    """Refuse a contract that differs from the record. A file without a record passes."""
    if KEY not in metadata:
        return
    source = f"{where}: the record in policy.onnx"
    try:
        claims = json.loads(metadata[KEY])
    except ValueError as error:
        raise Refusal(f"{source}: not JSON: {error}") from None
    kept = contract.model_dump(mode="json", include=NOT_RECORDED)
    if not isinstance(claims, dict):
        raise Refusal(f"{source}: a mapping was expected")
    recorded = configfile.parse({**claims, **kept}, Contract, source)
    for key, told, written in differ(
        contract.model_dump(mode="json"), recorded.model_dump(mode="json")
    ):
        raise Refusal(
            f"{where}: {key}: is {_short(told)}, but the network was exported with "
            f"{_short(written)}; export or import the policy again instead of editing it"
        )


def differ(one: Any, other: Any, key: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Where two trees of plain values differ: key, one value, the other value."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in sorted({*one, *other}):
            below = f"{key}.{name}" if key else name
            yield from differ(one.get(name), other.get(name), below)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for i, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from differ(left, right, f"{key}.{i}")
    elif one != other:
        yield key, one, other


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _field(tag: int, content: bytes) -> bytes:
    return _varint(tag) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)
