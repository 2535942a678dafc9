// Moments as people say them, relative to now where that is near.

const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const dayAndYear = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });

export function said(moment, now = new Date()) {
  const seconds = (now - moment) / 1000;
  if (seconds < -90) return ahead(-seconds, moment);
  if (seconds < 60) return "just now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (moment.toDateString() === now.toDateString()) return clock.format(moment);
  const format = moment.getFullYear() === now.getFullYear() ? day : dayAndYear;
  return `${format.format(moment)}, ${clock.format(moment)}`;
}

function ahead(seconds, moment) {
  if (seconds < 3600) return `in ${Math.round(seconds / 60)} min`;
  if (seconds < 36 * 3600) return `in ${Math.round(seconds / 3600)} h`;
  if (seconds < 30 * 86400) return `in ${Math.round(seconds / 86400)} days`;
  return `on ${dayAndYear.format(moment)}`;
}
