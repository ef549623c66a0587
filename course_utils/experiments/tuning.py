"""Judge every arm of an experiment by its own best setting, such as the learning rate."""

from collections.abc import Sequence

from course_utils.experiments.rows import Rows

__all__ = ["at_best"]


def at_best(rows: Rows, setting: str, by: Sequence[str], value: str, lowest: bool = False) -> Rows:
    """Return, for each group of runs, those with the setting that is best for the group, all seeds of it.

    Args:
        rows: the runs.
        setting: the field to choose, such as "lr".
        by: the fields that make a group, such as ("arm", "length").
        value: what the choice looks at: the mean over seeds of this field, which should not be what is reported.
        lowest: whether small values are good.

    Returns:
        The chosen rows, group after group in the order in which the groups first come. Of equal settings the first is
        taken.
    """
    means = {key: spread.mean for key, spread in rows.mean_and_spread(value, (*by, setting)).items()}
    best: dict[tuple, tuple] = {}
    for (*group, choice), mean in means.items():
        score = mean if lowest else -mean
        if tuple(group) not in best or score < best[tuple(group)][0]:
            best[tuple(group)] = (score, choice)
    chosen = (rows.select(**dict(zip(by, group, strict=True)), **{setting: at}) for group, (_, at) in best.items())
    return Rows([row for group in chosen for row in group], rows.origin)
