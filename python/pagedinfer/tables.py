"""Tables of pyarrow in and out."""
import json
from typing import Any, Dict, List, Optional

from .runs import Completions


def _line(row: Dict[str, Any], prompt: Optional[str]) -> str:
    """The line of a row. What JSON lacks, such as a time or an infinity, is text in it; NaN is a null.
    Without `prompt` all columns are for a template, which tells a null from no column."""
    values = dict(row)
    if prompt is not None:
        values = {name: value for name, value in row.items() if name != "prompt" or prompt == "prompt"}
        if prompt in values:
            values["prompt"] = values.pop(prompt)
    parts = []
    for name, value in values.items():
        if value is None or value != value:
            if prompt is not None:
                continue
            value = None
        try:
            text = json.dumps(value, ensure_ascii=False, allow_nan=False, default=str)
        except ValueError:
            text = json.dumps(str(value), ensure_ascii=False)
        parts.append(f"{json.dumps(name, ensure_ascii=False)}: {text}")
    return "{" + ", ".join(parts) + "}"


def run_table(table: Any, *, prompt: str = "prompt", quiet: bool = True, **settings: Any) -> Any:
    """Completes each row of a pyarrow table and returns the table with new columns.

    A row is a line: its column `prompt` is the prompt, and columns such as id, messages, max_tokens
    or temperature are the keys of that name. Nulls are left out. With prompt_template or
    message_template all columns are the template's. The new columns are text,
    finish_reason, prompt_tokens, completion_tokens and error (code and sentence; null where all is
    well). A row that asks for several answers has those in `text` as JSON."""
    import pyarrow as pa
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    new = {"text": pa.string(), "finish_reason": pa.string(), "prompt_tokens": pa.int64(),
           "completion_tokens": pa.int64(), "error": pa.string()}
    for name in new:
        if name in table.column_names:
            raise ValueError(f"{name}: the table has a column of this name, which the completions would have")
    templated = bool(settings.get("prompt_template") or settings.get("message_template"))
    if not templated and prompt not in table.column_names and "messages" not in table.column_names:
        raise ValueError(f"{prompt}: no such column; the table has {', '.join(table.column_names)}")
    for name in {prompt, "id", "messages"} & set(table.column_names):
        if "binary" in str(kind := table.schema.field(name).type):
            raise ValueError(f"{name}: found a column of {kind}, expected strings; cast it")

    def lines() -> Any:
        for batch in table.to_batches():
            for row in batch.to_pylist():
                yield _line(row, None if templated else prompt)

    # Records of a pipe come in the order of the lines unless --order says otherwise.
    if settings.get("order", "input") != "input":
        raise ValueError("order: a table keeps the order of its rows")
    for name in ("limit", "shard"):
        if settings.get(name) is not None:
            raise ValueError(f"{name}: a table is completed whole; give a slice of it")
    columns: Dict[str, List[Optional[Any]]] = {name: [] for name in new}
    with Completions(lines(), settings, quiet) as records:
        for record in records:
            error = record.get("error")
            columns["error"].append(f"{error['code']}: {error['message']}" if error else None)
            several = record.get("choices")
            columns["text"].append(json.dumps(several, ensure_ascii=False) if several else record.get("text"))
            for name in ("finish_reason", "prompt_tokens", "completion_tokens"):
                columns[name].append(record.get(name))
    for name, kind in new.items():
        table = table.append_column(name, pa.array(columns[name], kind))
    return table
