"""Rates over REST: of one subscription, and of groups of namespaces."""

from support.served import Served

RATE = {
    "dispatchThrottlingRateInMsg": 7,
    "dispatchThrottlingRateInByte": -1,
    "ratePeriodInSecond": 1,
    "relativeToPublishRate": False,
}
OF_ALL = {**RATE, "dispatchThrottlingRateInMsg": 9}
GROUP = {"publishRateInMsgs": 10, "dispatchRateInBytes": 2000}
WHOLE_GROUP = {
    "publishRateInMsgs": 10,
    "publishRateInBytes": -1,
    "dispatchRateInMsgs": -1,
    "dispatchRateInBytes": 2000,
}


def test_a_rate_of_one_subscription_goes_before_that_of_all(served: Served) -> None:
    ns = served.namespace()
    topic = f"/persistent/{ns}/t"
    served.http.put(topic)
    path = f"{topic}/s/dispatchRate"
    assert served.http.get(path).status_code == 204
    assert served.http.post(f"{topic}/subscriptionDispatchRate", json=OF_ALL).status_code == 204
    assert served.http.get(f"{path}?applied=true").json() == OF_ALL
    assert served.http.post(path, json=RATE).status_code == 204
    assert served.http.get(path).json() == RATE
    assert served.http.get(f"{path}?applied=true").json() == RATE
    assert served.http.get(f"{topic}/other/dispatchRate").status_code == 204
    assert served.http.delete(path).status_code == 204
    assert served.http.get(path).status_code == 204


def test_a_rate_of_one_subscription_that_is_none_is_refused(served: Served) -> None:
    topic = f"/persistent/{served.namespace()}/t"
    served.http.put(topic)
    path = f"{topic}/s/dispatchRate"
    wrong = served.http.post(path, json={"dispatchThrottlingRateInMsg": -2})
    assert (wrong.status_code, wrong.json()["reason"]) == (
        412,
        "dispatchRate: dispatchThrottlingRateInMsg is -2: give a number from -1 to "
        "9223372036854775807",
    )
    assert served.http.get(path).status_code == 204
    assert served.http.post(f"{topic}-none/s/dispatchRate", json=RATE).status_code == 404


def test_a_group_is_made_changed_and_deleted(served: Served) -> None:
    groups = "/resourcegroups"
    assert served.http.put(f"{groups}/g1", json=GROUP).status_code == 204
    assert "g1" in served.http.get(groups).json()
    assert served.http.get(f"{groups}/g1").json() == WHOLE_GROUP
    # What is not told stays as it is.
    assert served.http.put(f"{groups}/g1", json={"publishRateInBytes": 5}).status_code == 204
    assert served.http.get(f"{groups}/g1").json() == {**WHOLE_GROUP, "publishRateInBytes": 5}
    assert served.http.put(f"{groups}/g1", json={"publishRateInMsgs": "x"}).status_code == 400
    assert served.http.put(f"{groups}/a%20b", json={}).status_code == 412
    assert served.http.delete(f"{groups}/g1").status_code == 204
    assert served.http.delete(f"{groups}/g1").status_code == 404
    assert served.http.get(f"{groups}/g1").status_code == 404


def test_a_namespace_is_in_one_group_which_is_not_deleted_meanwhile(served: Served) -> None:
    ns = served.namespace()
    path = f"/namespaces/{ns}/resourcegroup"
    assert served.http.get(path).status_code == 204
    for group in ("g2", "g3"):
        served.http.put(f"/resourcegroups/{group}", json=GROUP)
        assert served.http.post(f"{path}/{group}").status_code == 204
    assert served.http.get(path).json() == "g3"
    assert served.http.get(f"/namespaces/{ns}").json()["resource_group_name"] == "g3"
    used = served.http.delete("/resourcegroups/g3")
    assert (used.status_code, used.json()["reason"]) == (
        412,
        f"ResourceGroup is in use: 1 namespaces are in it, {ns} for one",
    )
    assert served.http.delete("/resourcegroups/g2").status_code == 204
    assert served.http.post(f"{path}/g2").status_code == 412
    assert served.http.delete(path).status_code == 204
    assert served.http.get(path).status_code == 204
    assert served.http.delete("/resourcegroups/g3").status_code == 204


def test_a_namespace_is_made_with_rates_and_group_of_another(served: Served) -> None:
    ns = served.namespace()
    served.http.put("/resourcegroups/g4", json=GROUP)
    served.http.post(f"/namespaces/{ns}/resourcegroup/g4")
    served.http.post(f"/namespaces/{ns}/dispatchRate", json=RATE)
    served.http.post(f"/namespaces/{ns}/publishRate", json={"publishThrottlingRateInMsg": 5})
    whole = served.http.get(f"/namespaces/{ns}").json()
    assert whole["topicDispatchRate"] == {"standalone": RATE}
    assert served.http.put(f"/namespaces/{ns}-copy", json=whole).status_code == 204
    assert served.http.get(f"/namespaces/{ns}-copy").json() == whole
    wrong = served.http.put(f"/namespaces/{ns}-other", json={"resource_group_name": "none"})
    assert wrong.status_code == 412
    assert served.http.get(f"/namespaces/{ns}-other").status_code == 404
    for name in (ns, f"{ns}-copy"):
        served.http.delete(f"/namespaces/{name}/resourcegroup")
    served.http.delete("/resourcegroups/g4")
