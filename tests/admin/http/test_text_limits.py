"""Texts that come by REST are bounded as those on the wire are."""

import json

import pytest
from support.served import Served

from magnetar.broker.setting.text_limits import BODY, PROPERTIES, SCHEMA


def reason(answer: object) -> tuple[int, str]:
    return answer.status_code, answer.json()["reason"]  # type: ignore[attr-defined]


def test_properties_of_topics_and_subscriptions(served: Served, topic: str) -> None:
    large = {"k": "x" * PROPERTIES.bytes_max}
    told = (412, "properties has 16385 bytes, and 16384 are allowed")
    path = f"/persistent/{topic}"
    for method, place, body in (
        ("PUT", f"{path}-new", large),
        ("PUT", f"{path}-new/partitions", {"partitions": 2, "properties": large}),
        ("PUT", f"{path}/subscription/new", {"ledgerId": -1, "entryId": -1, "properties": large}),
    ):
        assert reason(served.http.request(method, place, json=body)) == told, place
    assert served.http.put(f"{path}/subscription/s").status_code == 204
    assert reason(served.http.put(f"{path}/subscription/s/properties", json=large)) == told
    many = {str(number): "" for number in range(257)}
    answer = served.http.put(f"{path}/subscription/s/properties", json=many)
    assert reason(answer) == (412, "properties has 257 keys, and 256 are allowed")
    assert served.http.get(f"{path}/subscription/s/properties").json() == {}
    assert served.http.get(f"{path}/subscriptions").json() == ["s"]
    fits = {"k": "x" * (PROPERTIES.bytes_max - 1)}
    assert served.http.put(f"{path}/subscription/s/properties", json=fits).status_code == 204


@pytest.mark.parametrize(
    ("method", "path", "noun"),
    [
        ("PUT", "/tenants/{long}", "tenant"),
        ("PUT", "/namespaces/public/{long}", "namespace"),
        ("POST", "/namespaces/public/default/permissions/{long}", "role"),
    ],
)
def test_names(served: Served, method: str, path: str, noun: str) -> None:
    body = ["produce"] if noun == "role" else {}
    answer = served.http.request(method, path.format(long="n" * 1025), json=body)
    status, text = reason(answer)
    assert status == 412
    assert text.startswith(f"the name of the {noun} has ")
    assert "and 1024 are allowed" in text


def test_schemas_may_be_larger_than_other_bodies_and_have_a_limit(
    served: Served, topic: str
) -> None:
    path = f"/schemas/{topic}/schema"
    # In JSON an odd letter takes six bytes.
    body = json.dumps({"type": "BYTES", "schema": "\x01" * 200_000, "properties": {}})
    assert len(body) > BODY.bytes_max
    assert served.http.post(path, content=body).status_code == 200
    large = {"type": "BYTES", "schema": "x" * (SCHEMA.bytes_max + 1)}
    assert reason(served.http.post(path, json=large)) == (
        412,
        "the definition of the schema has 262145 bytes, and 262144 are allowed: make it smaller, "
        "or raise schema_size_max",
    )


def test_a_body_of_more_than_a_mebibyte_is_refused_where_no_list_is_meant(served: Served) -> None:
    body = {"adminRoles": ["x" * BODY.bytes_max]}
    status, text = reason(served.http.put("/tenants/large", json=body))
    assert status == 413
    assert "and 1048576 are allowed: send less" in text
