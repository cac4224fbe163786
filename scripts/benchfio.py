"""Appends that fio makes."""

import json

from benchmounts import run


def appends(path, size, seconds, *how):
    """One writer's appends to a new file, each stable: how many a second, MB a second, median microseconds of a write and
    its sync together."""
    path.unlink(missing_ok=True)
    words = ["fio", "--name=append", f"--filename={path}", "--rw=write", f"--bs={size}", "--size=1g", *how,
             f"--runtime={seconds}", "--time_based", "--output-format=json"]
    job = json.loads(run(*words))["jobs"][0]
    median = lambda of: of["percentile"]["50.000000"] / 1000 if "percentile" in of else 0
    micros = median(job["write"]["clat_ns"]) + median(job["sync"]["lat_ns"])
    return {"per second": job["write"]["iops"], "MB/s": job["write"]["bw_bytes"] / 1e6, "p50 us": micros}
