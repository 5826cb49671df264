"""The first sentences of the report, which are computed, and name where rivals are faster."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from echo_core.spark_eval.report.document import Section
from echo_core.spark_eval.report.study import SAME, Study, codec_order, ordered_place
from echo_core.spark_eval.report.summaries import Key, Ratio, middle
from echo_core.spark_eval.report.units import counted, size, times

DOING = {"encode": "Encoding", "decode": "Decoding"}
_PREPOSITION = {"encode": "from", "decode": "to"}


def by_rival(ratios: Iterable[Ratio]) -> dict[str, list[Ratio]]:
    grouped: defaultdict[str, list[Ratio]] = defaultdict(list)
    for ratio in ratios:
        grouped[ratio.rival.codec].append(ratio)
    return dict(grouped)


def sentences(study: Study) -> list[str]:
    """A summary of all comparisons, then of each operation and target, then of the bytes."""
    speeds = [
        _speed(study, operation, target) for target in study.targets() for operation in ("decode", "encode")
    ]
    return [_tally(study), *(speed for speed in speeds if speed), *_bytes(study)]


def what(operation: str, target: str) -> str:
    return f"{DOING[operation]} {_PREPOSITION[operation]} {target}"


def _speed(study: Study, operation: str, target: str) -> str:
    """Medians over the shapes, and the shapes in which a rival is faster."""
    found = study.against_reference(operation, target)
    if not found:
        return ""
    middles = {rival: middle([r.wall.median for r in its]).median for rival, its in by_rival(found).items()}
    ranked = sorted(middles.items(), key=lambda item: -item[1])
    slower = [f"{rival} ({times(factor)})" for rival, factor in ranked if factor >= 1]
    ours = f"`{study.reference(target)}`"
    text = f"**{what(operation, target)}**, {ours} "
    text += f"is faster than {_series(slower)}" if slower else "is slower than every rival"
    lost = [ratio for ratio in found if ratio.wall.median < 1]
    return f"{text}. Faster than ours: {'; '.join(_cells_by_rival(lost))}." if lost else f"{text}."


def _series(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def wire_sizes(study: Study, shape: str) -> dict[str, float]:
    """Bytes per record of every codec from a sender of the same layout."""
    sizes: dict[str, float] = {}
    for codec in study.codecs(shape=shape, sender=SAME):
        key = study.keys(codec=codec, shape=shape, sender=SAME)[0]
        sizes[codec] = study.cells[key].bytes_per_record
    return sizes


def _bytes(study: Study) -> list[str]:
    shape = "batch-100"
    sizes = wire_sizes(study, shape)
    ours = sizes.get(study.reference("objects"))
    if ours is None:
        return []
    rivals = [
        f"{rival} {size(count)} ({times(count / ours)})"
        for rival, count in sorted(sizes.items(), key=lambda item: -item[1])
        if not Key(rival, "", "", "", "").is_ours
    ]
    text = f"**On the wire** a record of {shape} takes {size(ours)} bytes"
    text = f"{text}; {_series(rivals)}" if rivals else text
    return [
        f"{text}. Smaller than ours: {'; '.join(smaller)}." if (smaller := _smaller(study)) else f"{text}."
    ]


def _smaller(study: Study) -> list[str]:
    """The rivals that write fewer bytes than our objects, with the shapes."""
    parts: defaultdict[str, list[str]] = defaultdict(list)
    for shape in study.shapes(sender=SAME):
        sizes = wire_sizes(study, shape)
        ours = sizes.get(study.reference("objects"), 0)
        for rival, count in sizes.items():
            if count < ours:
                parts[rival].append(f"{shape} ({times(count / ours)})")
    return [f"{rival} in {_series(shapes)}" for rival, shapes in parts.items()]


def _tally(study: Study) -> str:
    verdicts = [ratio.verdict for ratio in study.ratios]
    won, lost, tied = (verdicts.count(side) for side in ("ours", "rival", "tie"))
    if not verdicts:
        return "No rival was measured in the same cell as one of our codecs."
    return (
        f"Of {counted(len(verdicts), 'comparison')} of one of our codecs with a rival in the same cell, ours "
        f"was faster in every block in {won:,} and the rival in {lost:,}; {tied:,} are "
        "too close to call: their range over the blocks includes 1. Factors below are medians over shapes."
        f"{_lazy(study)}"
    )


def _lazy(study: Study) -> str:
    """A note that lazy decoding makes comparisons with eager rivals incomplete."""
    if not study.keys(codec="echo event", operation="decode"):
        return ""
    text = (
        " A decoded `echo event` reads its fields when they are asked for, which the comparisons of it leave "
        "out"
    )
    is_read = study.keys(codec="echo event, read", operation="decode")
    return f"{text}; those of `echo event, read` ask for every field once." if is_read else f"{text}."


def losses(study: Study) -> Section:
    """A section with all cells in which a rival is faster, by our codec, operation and target."""
    grouped: defaultdict[tuple[str, ...], list[Ratio]] = defaultdict(list)
    for ratio in study.ratios:
        if ratio.wall.median < 1:
            grouped[ratio.ours.codec, ratio.ours.target, ratio.ours.operation].append(ratio)
    order = sorted(grouped, key=lambda names: (*codec_order(names[0]), *names[1:]))
    text = (
        "Every cell in which a rival's median was below ours, with how many times as fast the rival is."
        if grouped
        else "Nowhere in this run: no rival's median was below ours in any cell."
    )
    return Section(
        "losses", "Where we lose", paragraphs=[text], bullets=[_loss(n, grouped[n]) for n in order]
    )


def _loss(names: tuple[str, ...], ratios: Sequence[Ratio]) -> str:
    ours, target, operation = names
    return f"**`{ours}`, {what(operation, target).lower()}**: {'; '.join(_cells_by_rival(ratios))}."


def _cells_by_rival(ratios: Sequence[Ratio]) -> list[str]:
    return [f"{rival} in {_series(_by_shape(its))}" for rival, its in by_rival(ratios).items()]


def _by_shape(ratios: Sequence[Ratio]) -> list[str]:
    """Each shape once, with the factors of its senders in parentheses."""
    parts: defaultdict[str, list[str]] = defaultdict(list)
    for ratio in sorted(ratios, key=lambda r: (ordered_place(r.rival.shape), r.rival.sender != SAME)):
        sender = "" if ratio.rival.sender == SAME else f"from {ratio.rival.sender} "
        close = " within the noise" if ratio.verdict == "tie" else ""
        parts[ratio.rival.shape].append(f"{sender}{times(1 / ratio.wall.median)}{close}")
    return [f"{shape} ({', '.join(its)})" for shape, its in parts.items()]
