"""What the lines of a run say over time: gaps between tokens, and when requests arrived.

Knows the lines' fields, nothing of plots.
"""
import datetime

MAX_MARKS = 600  # over time; more are thinned to the longest ones


def gaps_of(run):
    """When sequences that decoded got a token, how long after the one before, and how many they were."""
    gaps = []
    for before, step in zip(run.steps, run.steps[1:]):
        if step["decode_tokens"]:
            gaps.append((step["end_s"] - run.steps[0]["begin_s"], 1e3 * (step["end_s"] - before["end_s"]),
                         step["decode_tokens"]))
    return gaps


def percentile_of(gaps, share):
    """Nearest-rank, each gap counted for every sequence that had it."""
    wanted = share * sum(count for _, _, count in gaps)
    for _, gap, count in sorted(gaps, key=lambda g: g[1]):
        wanted -= count
        if wanted <= 0:
            return gap
    return 0.0


def thinned(points, key):
    """At most MAX_MARKS points: of equal spans of time the one with the largest key."""
    if len(points) <= MAX_MARKS:
        return points
    begin, end = points[0][0], points[-1][0]
    spans = {}
    for point in points:
        place = int((point[0] - begin) / (end - begin) * (MAX_MARKS - 1)) if end > begin else 0
        if place not in spans or key(point) > key(spans[place]):
            spans[place] = point
    return list(spans.values())


def arrivals_of(requests):
    """When each request arrived, in seconds since the first one; None where the lines do not say it.

    As the file says it, or from the time of the request's end and how long it took.
    """
    if all(request.get("arrival_s") is not None for request in requests):
        return [request["arrival_s"] for request in requests]
    if not all(request.get("time") for request in requests):
        return None
    times = [datetime.datetime.fromisoformat(request["time"].replace("Z", "+00:00")).timestamp()
             - (request["e2e_ms"] or 0) / 1e3 for request in requests]
    return [time - min(times) for time in times]


def distribution(values):
    """Of sorted values at most MAX_MARKS, and which percentage of all is not above each."""
    ordered = sorted(values)
    count = len(ordered)
    ranks = range(1, count + 1) if count <= MAX_MARKS else [
        1 + round(place * (count - 1) / (MAX_MARKS - 1)) for place in range(MAX_MARKS)]
    return [ordered[rank - 1] for rank in ranks], [100 * rank / count for rank in ranks]
