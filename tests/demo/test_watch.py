"""What is followed while it is written is counted once, whole lines only."""

from pathlib import Path

from examples.demo.facts import Place
from examples.demo.watch import Watch


def test_lines_are_counted_when_they_are_whole(tmp_path: Path) -> None:
    log = tmp_path / "facts.log"
    log.touch()
    watch = Watch(log)
    with log.open("a") as file:
        for text in (
            "W w1\nP w1 5:0:0 a 0 c0 1 0\nA w",
            "1 5:0:0 2\nN w1 5:0:1 a 1 c1 3 0\n",
            "K 4\n",
        ):
            file.write(text)
            file.flush()
            watch.read()
    watch.close()
    assert {name: watch.counts[name] for name in ("P", "A", "N", "K", "W w1", "P w1", "A w1")} == (
        dict.fromkeys(("P", "A", "N", "K", "W w1", "P w1", "A w1"), 1)
    )
    assert dict(watch.refused) == {("a", 1): 1}
    assert watch.last_refused["a", 1].place == Place(5, 0, 1)
