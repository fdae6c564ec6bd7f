// Rates, from the last few statuses: a mean over seconds, as a status is a moment.

// Long enough that a number can be read, short enough that a burst is seen at once.
const WINDOW_MS = 2500;

export class Rates {
  constructor() {
    this.kept = [];
    // Nobody asked while the page was hidden: a mean over that time is not the rate of now.
    document.addEventListener("visibilitychange", () => { this.kept = []; });
  }

  add(status) {
    const before = this.kept.at(-1);
    // Another process counts on, but its sockets begin again.
    if (before && before.status.pid !== status.pid) this.kept = [];
    const now = performance.now();
    this.kept.push({ time: now, status });
    while (this.kept.length > 2 && now - this.kept[1].time >= WINDOW_MS) this.kept.shift();
  }

  // Per second, of a number of the status; null before there are two.
  of(read) {
    const [first, last] = [this.kept[0], this.kept.at(-1)];
    if (!first || first === last) return null;
    const [before, now] = [read(first.status), read(last.status)];
    if (before === undefined || now === undefined) return null;
    return Math.max(0, now - before) * 1000 / (last.time - first.time);
  }

  // Whether a number changed between the last two statuses.
  changed(read) {
    const [before, now] = [this.kept.at(-2), this.kept.at(-1)];
    return Boolean(before) && read(before.status) !== read(now.status);
  }
}

export function sum(numbers) {
  return Object.values(numbers).reduce((total, number) => total + number, 0);
}
