"""What `chaos.py` counts; the run itself is a program, for it wants a machine of its own."""

from cluster.chaos import came_back

from magnetar.testing.checker.history import AckAsked, AckKept, History, Place, Received


def test_a_message_comes_back_only_after_its_ack_was_confirmed() -> None:
    history = History()
    for number in (0, 1, 2):
        place = Place(3, number)
        received = Received("c", "sub", "t", place, 1, b"", "", 0)
        history.add(received)
        history.add(AckAsked("c", "sub", number, (place,), False, "t"))
        if number != 1:
            history.add(AckKept("c", number))
        if number != 2:
            history.add(received)
            history.add(received)
    assert came_back(history) == 1
