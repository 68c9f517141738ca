from __future__ import annotations

import random

import torch

from agentcore.bounds.regions import View, distinct_elements


def brute_force(shape: tuple[int, ...], views: list[torch.Tensor]) -> int:
    marks: set[int] = set()
    for view in views:
        marks.update(view.flatten().tolist())
    return len(marks)


def random_view(tensor: torch.Tensor, rng: random.Random) -> torch.Tensor:
    view = tensor
    for _ in range(rng.randrange(4)):
        axis = rng.randrange(view.dim())
        size = view.shape[axis]
        match rng.randrange(4):
            case 0 if size > 1:
                start = rng.randrange(size)
                view = view.narrow(axis, start, rng.randrange(size - start) + 1)
            case 1 if view.dim() > 1:
                view = view.transpose(axis, rng.randrange(view.dim()))
            case 2:
                view = view.unsqueeze(axis).expand(*view.shape[:axis], 3, *view.shape[axis:])
            case _:
                view = view[(slice(None),) * axis + (slice(None, None, 2),)]
    return view


def test_distinct_elements_agree_with_marking_every_index() -> None:
    rng = random.Random(5)
    for _ in range(300):
        shape = tuple(rng.randint(1, 5) for _ in range(rng.randint(1, 4)))
        tensor = torch.arange(torch.Size(shape).numel()).reshape(shape)
        views = [random_view(tensor, rng) for _ in range(rng.randint(0, 3))]
        found = distinct_elements(
            tensor.numel(), [View.of(int(v.storage_offset()), tuple(v.shape), v.stride()) for v in views]
        )
        assert found == brute_force(shape, views)


def test_a_sliding_window_counts_each_element_once() -> None:
    window = torch.arange(10).unfold(0, 4, 1)
    view = View.of(0, tuple(window.shape), window.stride())
    assert view.is_overlapping
    assert distinct_elements(10, [view]) == 10


def test_empty_views_cover_nothing() -> None:
    assert distinct_elements(10, [View.of(0, (0, 5), (5, 1))]) == 0
    assert distinct_elements(10, []) == 0
