// Moments as people say them; the exact time is in the title, and the server's clock is UTC.

import { h } from "./dom.js";

const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const dayAndYear = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const full = new Intl.DateTimeFormat("en-GB", { dateStyle: "full", timeStyle: "medium" });

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

/** A moment that stays right while the page is open. */
export function when(text) {
  const moment = new Date(text);
  if (Number.isNaN(moment.getTime())) return h("span", null, "–");
  return h("time", { datetime: text, title: full.format(moment), class: "when" }, said(moment));
}

setInterval(() => {
  for (const node of document.querySelectorAll("time.when")) {
    const text = said(new Date(node.dateTime));
    if (node.textContent !== text) node.textContent = text;
  }
}, 30_000);
