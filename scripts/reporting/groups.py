"""Puts results that belong together into experiments, and says in words in what they differ.

Knows commands and settings, nothing of tables or plots.
"""
import dataclasses
import shlex
import statistics

# Flags that change where things are written, not what is measured.
OUTPUTS = {"results", "emit", "stats", "trace", "output", "overwrite", "quiet", "progress", "program"}
# What a run's settings are called, in the order in which they tell runs apart. A setting of the
# second part follows from others, so it is named only where nothing else differs.
WORDS = {
    "model": lambda v: str(v), "batching": lambda v: f"{v} batching",
    "kv": lambda v: f"{v}", "prefix_cache": lambda v: f"prefix cache {'on' if v else 'off'}",
    "dtype": lambda v: str(v), "device": lambda v: str(v), "threads": lambda v: f"{v} threads",
    "max_batch_size": lambda v: f"batch {v}", "block_size": lambda v: f"blocks of {v}",
    "admission_reserve": lambda v: f"reserve {v:g}",
}
DERIVED = {
    "max_step_tokens": lambda v: f"steps of {v:,} tokens", "num_blocks": lambda v: f"{v:,} blocks",
    "max_model_len": lambda v: f"at most {v:,} tokens",
}


def chunking(config):
    if not config.get("chunked_prefill"):
        return "whole prompts"
    cap = config.get("max_prefill_chunks")
    return f"chunks of {config.get('prefill_chunk_size')}" + (f", {cap} a step" if cap else "")


def describe(configs):
    """For each configuration the words for the settings in which it differs from the others."""
    def differing(words):
        keys = [key for key in words if len({str(config.get(key)) for config in configs}) > 1]
        return [[words[key](config[key]) if config.get(key) is not None else f"no {key}" for key in keys]
                for config in configs]

    parts = differing(WORDS)
    if len({chunking(config) for config in configs}) > 1:
        parts = [[*part, chunking(config)] for part, config in zip(parts, configs)]
    if len({tuple(part) for part in parts}) < len(configs):
        parts = [[*part, *more] for part, more in zip(parts, differing(DERIVED))]
    return [", ".join(part) for part in parts]


def names_of(runs):
    """Short different names of runs: by their settings, or by their files."""
    if len(runs) == 1:
        return [runs[0].source]
    if all(run.summary for run in runs):
        names = describe([run.summary["config"] for run in runs])
        if len(set(names)) == len(runs) and all(names):
            return names
    sources = [run.source for run in runs]
    if len(set(sources)) == len(runs):
        return sources
    return [f"{source}, run {number}" for number, source in enumerate(sources, 1)]


def flags_of(command):
    """The flags of a command and their values, without those that say where things are written."""
    flags, name = {}, None
    for word in shlex.split(command):
        if word.startswith("--"):
            name, _, value = word[2:].partition("=")
            flags[name] = [value] if value else []
        elif name:
            flags[name].append(word)
    return {name: " ".join(values) for name, values in flags.items() if name not in OUTPUTS}


@dataclasses.dataclass
class Experiment:
    """Results whose commands differ in the values of flags only."""
    name: str
    title: str
    results: list

    def __post_init__(self):
        given = [flags_of(result.line["command"]) for result in self.results]
        names = list(dict.fromkeys(name for flags in given for name in flags))
        self.varied = [name for name in names if len({flags.get(name) for flags in given}) > 1]
        self.settings = [{name: flags.get(name) for name in self.varied} for flags in given]

    def points(self):
        """Results of equal settings together: a list of settings and results, in the order of the file."""
        points = {}
        for settings, result in zip(self.settings, self.results):
            points.setdefault(tuple(settings.items()), []).append(result)
        return [(dict(key), results) for key, results in points.items()]

    def series(self, value_of, flag):
        """The results over the values of a setting: words for the other settings, to value, to results."""
        series = {}
        for settings, result in zip(self.settings, self.results):
            value = value_of(result)
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                others = {name: v for name, v in settings.items() if name not in flag}
                by_value = series.setdefault(words_of(others), {})
                by_value.setdefault(value, []).append(result)
        return {words: dict(sorted(values.items())) for words, values in series.items()}


def words_of(settings):
    """The settings as flags: `--kv paged --strict`; a flag that is not given is left out."""
    return " ".join(f"--{name} {value}".strip() for name, value in settings.items() if value is not None)


def median(results, figure):
    """The median of a figure of the summaries, or None where it is in none of them."""
    values = [figure_of(result, figure) for result in results]
    values = [value for value in values if value is not None]
    return statistics.median(values) if values else None


def extent(results, figure):
    values = [figure_of(result, figure) for result in results]
    values = [value for value in values if value is not None]
    return (min(values), max(values)) if values else None


def model_of(config):
    return (config.get("served_model_name") or config.get("model") or "").rstrip("/").rpartition("/")[2]


def experiments(results):
    """One experiment for each line of a grid, or workload of a file, on a model and machine at a commit."""
    groups = {}
    for result in results:
        line = result.line
        part = line.get("run") or result.workload.get("name") or ""
        key = (result.source, part, model_of(line["config"]), str(line.get("machine")), line["commit"])
        groups.setdefault(key, []).append(result)
    found = []
    names = {}
    for (source, part, model, _, commit), members in groups.items():
        name = "-".join(dict.fromkeys(word for word in (source, part, model) if word))
        names[name] = names.get(name, 0) + 1
        if names[name] > 1:
            name += f"-{commit}"
        found.append(Experiment(name, ", ".join(dict.fromkeys(w for w in (part or source, model) if w)), members))
    return found


def setting(result, key):
    """A setting of a result: of its config, or of its workload."""
    if key == "load_or_rate":
        return result.workload.get("load") or result.workload.get("rate") or None
    if key in result.workload and key not in result.line["config"]:
        return result.workload[key]
    return result.line["config"].get(key)


def figure_of(result, name):
    """A figure of the summary, or the share of the prompts' tokens that was in the cache."""
    summary = result.line["summary"]
    if name != "hit_rate":
        return summary.get(name)
    tokens = summary.get("total_input_tokens")
    return (summary.get("cached_tokens") or 0) / tokens if tokens else None


def failed(results):
    """The largest number of requests that failed in one of the runs."""
    return max((figure_of(result, "failed") or 0 for result in results), default=0)


def failed_of(run):
    """Requests that failed, by the summary or else by the lines of the requests."""
    by_summary = (run.summary or {}).get("failed")
    return sum(1 for r in run.requests if r.get("error")) if by_summary is None else by_summary


def words_of_flags(flags, others):
    """Flags of a configuration without those that all of them have."""
    given = flags_of(flags)
    shared = [flags_of(other) for other in others]
    differing = {n: v for n, v in given.items() if any(o.get(n) != v for o in shared)}
    return words_of(differing) or "default"


def compared(results):
    """Rows of all ratios: figure, what is compared, of what over what, the ratio, the interval."""
    rows = []
    for result in results:
        line = result.line
        configurations = line["configurations"]
        flags = [configuration["flags"] for configuration in configurations]
        model = model_of(configurations[0]["config"]) if configurations else ""
        what = ", ".join(word for word in (line.get("run") or result.workload.get("name"), model) if word)
        for ratio in line["ratios"]:
            some_failed = any(configurations[ratio[key]]["summary"].get("failed") for key in ("of", "to"))
            rows.append((ratio["figure"], what + ", some requests failed" * some_failed, words_of_flags(flags[ratio["of"]], flags),
                         words_of_flags(flags[ratio["to"]], flags), ratio["median"], ratio["mean_95"]))
    return rows


def configurations(comparisons):
    """The configurations of comparisons as results of their own: each is the run of the median duration."""
    return [dataclasses.replace(result, line={
                **{key: result.line[key] for key in ("run", "commit", "machine", "workload") if key in result.line},
                "command": f"pagedinfer bench {configuration['flags']}",
                "config": configuration["config"], "summary": configuration["summary"]})
            for result in comparisons for configuration in result.line["configurations"]]
