"""What a run shows, on a terminal and in a log."""

import io

from rich.console import Console

from examples.demo.screen import Now, Screen

NOW = Now(100, 90, 80, 70, 5, 40, {"worker-1": ("killed", 80, 5, 70)}, "serving", "streaming")


def shown(*, terminal: bool) -> str:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=100, color_system=None)
    with Screen("the demo", console) as screen:
        screen.phase("start")
        screen.phase_done("start", 1.5)
        screen.say("[not markup] the broker is killed", "red")
        screen.update(NOW)
    assert isinstance(console.file, io.StringIO)
    assert [text for _, text, _ in screen.events] == ["[not markup] the broker is killed"]
    return console.file.getvalue()


def test_a_terminal_shows_phases_figures_and_processes() -> None:
    said = shown(terminal=True)
    for text in ("the demo", "✓ start 1.5 s", "in the lake", "40", "worker-1", "killed"):
        assert text in said
    assert "[not markup] the broker is killed" in said


def test_a_small_terminal_shows_what_happened_last() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=80, height=24)
    screen = Screen("the demo", console)
    for number in range(20):
        screen.say(f"event {number}, and much to say of it" + " and more" * 10)
    screen.update(NOW)
    lines = console.render_lines(screen._picture(), pad=False)
    said = ["".join(segment.text for segment in line) for line in lines]
    assert len(said) <= 24
    assert "worker-1" in "".join(said)
    assert "event 19, and much" in "".join(said)
    assert "event 9," not in "".join(said)


def test_a_log_has_plain_lines() -> None:
    said = shown(terminal=False)
    assert said.splitlines()[0] == "the demo"
    assert said.splitlines()[1].endswith(" s  [not markup] the broker is killed")
    assert "\x1b" not in said
