"""From samples to a verdict: medians with their spread, ratios to the floor within each round, and a table."""

import statistics

MET, MISSED, NOT_MEASURED = "met", "MISSED", "not measured"
NOISY_SHARE = 0.25  # above it others, or the kernel's own threads, had so much of the machine that figures suffer


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)} if values else None


def ratios(rounds, row, other):
    """Server CPU of `row` over that of `other`, for each round in which both samples count."""
    pairs = [(each.get(row), each.get(other)) for each in rounds]
    return [ours["server_cpu_us"] / theirs["server_cpu_us"] for ours, theirs in pairs if ours and theirs]


def judge(mark, rounds):
    """The mark's verdict from `rounds`, a list of {row name: sample or None}. One failed sample and it is missed."""
    tried = [each for each in rounds if mark.row in each]
    if mark.floor:
        values = ratios(rounds, mark.row, mark.floor)
    else:
        values = [each[mark.row]["server_cpu_us"] for each in tried if each[mark.row]]
    if not tried:
        verdict = NOT_MEASURED
    elif len(values) < len(tried) or statistics.median(values) > mark.limit:
        verdict = MISSED
    else:
        verdict = MET
    return {
        "row": mark.row,
        "limit": mark.limit,
        "of": mark.floor,
        "unit": "times the floor, paired by round" if mark.floor else "us of server CPU per message",
        "measured": spread(values),
        "beside": {other: spread(ratios(rounds, mark.row, other)) for other in mark.beside},
        "samples": len(values),
        "samples_failed": len(tried) - len(values),
        "verdict": verdict,
    }


FIGURES = ["server_cpu_us", "client_cpu_us", "sent_per_second", "delivered_per_second", "others_cpu_share"]


def summary(rounds, name):
    samples = [each[name] for each in rounds if each.get(name) is not None]
    return {figure: spread([each[figure] for each in samples]) for figure in FIGURES}


def cell(values, scale=1.0, digits=2):
    if values is None:
        return "-"
    median, least, most = (values[key] * scale for key in ("median", "min", "max"))
    return f"{median:.{digits}f} ({least:.{digits}f}-{most:.{digits}f})"


HEADINGS = ["", "server CPU us/msg", "client CPU us/msg", "sent k/s", "delivered k/s", "others' CPU %", "counted"]


def table(workload, rounds, skipped):
    """Lines of text for one workload: a row each, median (min-max)."""
    cells = [HEADINGS]
    for row in workload.rows:
        if row.name in skipped:
            continue
        figures = summary(rounds, row.name)
        tried = [each for each in rounds if row.name in each]
        counted = sum(each[row.name] is not None for each in tried)
        cells.append(
            [
                row.name,
                cell(figures["server_cpu_us"], digits=3),
                cell(figures["client_cpu_us"], digits=3),
                cell(figures["sent_per_second"], 1e-3, 1),
                cell(figures["delivered_per_second"], 1e-3, 1),
                cell(figures["others_cpu_share"], 100, 0),
                f"{counted}/{len(tried)}",
            ]
        )
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEADINGS))]
    text = ["", f"{workload.name}: {workload.title}"]
    text += ["  " + "  ".join(word.ljust(width) for word, width in zip(line, widths)).rstrip() for line in cells]
    text += [f"  skipped: {name}: {why}" for name, why in skipped.items()]
    shares = [each["others_cpu_share"] for one in rounds for each in one.values() if each]
    if shares and statistics.median(shares) > NOISY_SHARE:
        text.append(f"  noisy: others had {statistics.median(shares):.0%} of the CPUs; repeat before you quote")
    return text


def mark_line(result):
    limit = f"{result['limit']:g}x the floor" if result["of"] else f"{result['limit']:g} us"
    measured = cell(result["measured"], digits=3)
    failed = f", {result['samples_failed']} samples failed" if result["samples_failed"] else ""
    text = f"  mark: {result['row']}: at most {limit}; measured {measured}{failed}: {result['verdict']}"
    beside = [f"    {cell(times)} times {other}" for other, times in result["beside"].items() if times]
    return "\n".join([text, *beside])
