/** Times, durations and sizes in words. */

/** A duration with two figures. Zero is what whole milliseconds make of less than one. */
export function duration(ms: number | undefined): string {
  if (ms === undefined) {
    return "–";
  }
  if (ms === 0) {
    return "< 1 ms";
  }
  if (ms < 1) {
    return `${Math.max(1, Math.round(ms * 1000))} µs`;
  }
  if (ms < 1000) {
    return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
  }
  const seconds = ms / 1000;
  if (seconds < 60) {
    return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  }
  const parts: [number, string][] = [
    [86_400, "d"],
    [3600, "h"],
    [60, "min"],
    [1, "s"],
  ];
  const first = parts.findIndex(([size]) => seconds >= size);
  let left = Math.round(seconds);
  return parts
    .slice(first, first + 2)
    .map(([size, unit]) => {
      const count = Math.floor(left / size);
      left -= count * size;
      return count > 0 ? `${count} ${unit}` : "";
    })
    .filter((part) => part !== "")
    .join(" ");
}

/** A time relative to now below an hour, and in the local zone above. */
export function when(at: string, now = Date.now()): string {
  const then = Date.parse(at);
  const distance = now - then;
  if (Math.abs(distance) < 5000) {
    return "now";
  }
  if (Math.abs(distance) < 3_600_000) {
    const far = Math.abs(distance);
    const words = far < 60_000 ? duration(far) : `${Math.round(far / 60_000)} min`;
    return distance > 0 ? `${words} ago` : `in ${words}`;
  }
  return clock(at, now, true);
}

/** A time of day in the local zone, with the day where it is another one than today. */
export function clock(at: string, now = Date.now(), withSeconds = false): string {
  const then = new Date(at);
  const isToday = then.toDateString() === new Date(now).toDateString();
  return (isToday ? (withSeconds ? OF_TODAY : OF_TODAY_SHORT) : OF_DAYS).format(then);
}

/** An instant in the local zone, which it names, and in UTC as the daemon sent it. */
export function exactly(at: string): { local: string; utc: string } {
  return { local: IN_ZONE.format(new Date(at)), utc: at };
}

/** Formats are created once: creating one takes longer than rendering a row of a list. */
const OF_TODAY = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const OF_TODAY_SHORT = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const OF_DAYS = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", day: "numeric", month: "short" });
const IN_ZONE = new Intl.DateTimeFormat(undefined, {
  weekday: "short",
  day: "numeric",
  month: "short",
  year: "numeric",
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  timeZoneName: "longOffset",
});

/** A size in bytes. */
export function size(bytes: number): string {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let value = bytes;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

/** The first letters of an id and its last ones, which differ most. */
export function short(id: string): string {
  return id.length > 14 ? `${id.slice(0, 8)}…${id.slice(-4)}` : id;
}

/** A count with separators of thousands: `1,204`. */
export const many = (count: number): string => count.toLocaleString("en");
