"""What the figures of a summary are called, in which unit, and which way is better."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Figure:
    words: str
    unit: str
    scale: float = 1  # of the field, to the unit
    more_is_better: bool = True

    def axis(self):
        return f"{self.words} [{self.unit}]" if self.unit else self.words

    def text(self, value):
        return "-" if value is None else number(value * self.scale)


def number(value):
    """Three digits, or all of them before the point: 0.0123, 1.23, 123, 12,345."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    digits = 2
    for limit in (10, 1, 0.1, 0.01):
        digits += abs(value) < limit
    return f"{value:.{digits - 1}f}"


def ratio_text(value):
    """As a number, with three decimals where it is close to 1."""
    return f"{value:.3f}" if 0.9 < value < 1.1 else number(value)


def ratio_with_interval(middle, low, high):
    """The interval is left out where one pair gave none."""
    if low is None or high is None:
        return ratio_text(middle)
    return f"{ratio_text(middle)} ({ratio_text(low)} to {ratio_text(high)})"


FIGURES = {
    "output_throughput": Figure("output throughput", "tokens/s"),
    "total_token_throughput": Figure("throughput of all tokens", "tokens/s"),
    "input_throughput": Figure("prompt throughput", "tokens/s"),
    "request_throughput": Figure("request throughput", "requests/s"),
    "duration": Figure("duration", "s", more_is_better=False),
    "running_mean": Figure("sequences at once, mean", ""),
    "running_peak": Figure("sequences at once, peak", ""),
    "kv_use_peak": Figure("cache in use, peak", "%", 100),
    "kv_slot_utilization": Figure("leased positions that hold a token", "%", 100),
    "failed": Figure("failed requests", "", more_is_better=False),
    "preemptions": Figure("preemptions", "", more_is_better=False),
    "recomputed_tokens": Figure("tokens computed again", "", more_is_better=False),
    "hit_rate": Figure("prompt tokens found in the cache", "%", 100),
    **{f"{p}_{key}_ms": Figure(f"{'P' + p[1:] if p[0] == 'p' else p} {name}", "ms", more_is_better=False)
       for key, name in (("ttft", "TTFT"), ("tpot", "TPOT"), ("itl", "ITL"), ("e2el", "E2EL"), ("queue", "wait"))
       for p in ("median", "mean", "p50", "p90", "p99", "max")},
}


def figure(name):
    return FIGURES.get(name) or Figure(name.replace("_", " "), "")
