"""Numbers that follow each other, told as runs.

>>> runs_of([3, 4, 5, 9])
[(3, 3), (9, 1)]
>>> list(run_numbers([(3, 3), (9, 1)], 10)), list(run_numbers([(3, 2**60)], 4))
([3, 4, 5, 9], [3, 4, 5, 6])
"""

__all__ = ["run_numbers", "runs_of"]


def runs_of(numbers: list[int]) -> list[tuple[int, int]]:
    """Returns the first of each run and how many there are, of numbers that ascend."""
    runs: list[tuple[int, int]] = []
    first = 0
    count = 0
    for number in numbers:
        if count > 0 and number == first + count:
            count += 1
            continue
        if count > 0:
            runs.append((first, count))
        first = number
        count = 1
    if count > 0:
        runs.append((first, count))
    return runs


def run_numbers(runs: list[tuple[int, int]], count_max: int) -> list[int]:
    """Returns the numbers of runs, and no more than so many, whatever a peer says."""
    numbers: list[int] = []
    for first, count in runs:
        count = min(count, count_max - len(numbers))
        numbers.extend(range(first, first + count))
    return numbers
