// Lists to print: for each pool that is being measured its members with boxes to tick, a place for
// the total, a date and a signature, and a code that leads to the answer on this page.

import { download, get, getText } from "./api.js";
import { fill, h, name, undisturbed, visible, wholeName } from "./dom.js";
import { figure, whole } from "./numbers.js";
import { notice } from "./notices.js";
import { choice, differ, empty, size, trouble, working } from "./pieces.js";
import { alone, measured, state, unit, who } from "./store.js";

const HERE = ["127.0.0.1", "localhost", "[::1]"];
const day = new Intl.DateTimeFormat("en-GB", { dateStyle: "long", timeStyle: "short" }); // on paper nothing is "just now"

export function create({ settings, remember }) {
  let { of: whose = "", sets = "" } = settings;
  const codes = new Map(); // by position: pictures do not change
  const status = h("div", null, working());
  const sheets = h("div", { class: "sheets" });
  const print = h("button", { type: "button", class: "primary" }, "Print");
  const plate = h("button", { type: "button" }, "Plate layout (CSV)");
  const note = h("p", { class: "soft unprinted" });
  const people = choice("Whose", { "": "Yours", all: "Everyone's" }, whose, (key) => {
    whose = key;
    put();
    refresh();
  });
  const element = h(
    "section",
    { class: "view lists" },
    h("div", { class: "titleline unprinted" }, h("h1", { tabindex: "-1" }, "Lists to print"), people.element),
    h("div", { class: "buttons unprinted" }, print, plate, h("a", { class: "button quiet", href: "#/next" }, "Back")),
    note,
    status,
    sheets,
  );
  print.addEventListener("click", () => window.print());
  plate.addEventListener("click", () => downloadPlate(whose === "all" ? null : who()));

  const put = () => remember({ of: whose, sets });

  async function refresh() {
    people.element.hidden = Boolean(sets);
    plate.hidden = Boolean(sets);
    people.choose(whose);
    const loopback = HERE.includes(location.hostname);
    note.textContent = loopback ? "The codes contain the address of this machine, which no other device can open. Start the page with --host to use them from a phone." : "";
    try {
      const found = await pools();
      for (const each of found) if (!codes.has(each.position)) codes.set(each.position, await codeOf(each.position));
      undisturbed(() => render(found));
    } catch (error) {
      trouble(status, error, refresh);
    }
  }

  /** Pools that are named in the address, or those that are being measured. */
  async function pools() {
    if (sets) return Promise.all(sets.split(",").map((position) => get(`/api/sets/${Number(position)}?size=1`)));
    const { claims } = await get("/api/next?n=0");
    return claims.filter((each) => (each.designed || alone()) && (whose === "all" || (each.by ?? "") === who()));
  }

  function render(found) {
    fill(status, found.length ? null : empty("There is no pool to print.", "Lists of pools appear here once they are claimed."));
    print.hidden = plate.hidden = !found.length;
    if (sets) plate.hidden = true;
    fill(sheets, found.map((each) => sheetOf(each, codes.get(each.position))));
  }

  /** Settings from an address, such as a link to one pool. */
  function adopt(wanted) {
    ({ of: whose = "", sets = "" } = wanted);
  }

  return { element, refresh, adopt, title: "Lists" };
}

/** A layout of all open pools of a person, or of everybody. */
export async function downloadPlate(by) {
  try {
    await download(`/api/plate.csv${by === null ? "" : `?${new URLSearchParams({ by })}`}`, "plate.csv");
  } catch (error) {
    notice(error.message, "trouble");
  }
}

const addressOf = (position) => `${location.origin}/#/next/set/${position}`;

async function codeOf(position) {
  const text = await getText(`/api/sets/${position}/code.svg?${new URLSearchParams({ origin: location.origin })}`);
  return `data:image/svg+xml,${encodeURIComponent(text)}`;
}

function sheetOf(pool, code) {
  const { by, asked } = "state" in pool ? (pool.claim ?? {}) : pool; // as GET /sets or GET /next says it
  const members = pool.members ?? [{ id: pool.id, row: 1, weight: 1, set: pool }];
  const weighed = differ(members);
  const total = members.reduce((sum, { weight }) => sum + weight, 0);
  const signs = new Set(members.map(({ weight }) => Math.sign(weight)));
  const share = ({ weight }) => (signs.size === 1 && total ? `${figure((100 * weight) / total)} %` : "–");
  const from = !alone() && members.some(({ id, set }) => !id.startsWith(set.id));
  const number = (words) => h("th", { scope: "col", class: "number" }, words);
  const text = (words) => h("th", { scope: "col" }, words);
  const heads = [text(h("span", { class: "unseen" }, "Done")), number("No."), text("Individual"), from && text("Of"), weighed && number("Weight"), weighed && number("Share")];
  const line = (words) => h("div", { class: "rule" }, h("span", null, words));
  return h(
    "article",
    { class: "list anchor" },
    h(
      "header",
      null,
      h(
        "div",
        { class: "titles" },
        h("p", { class: "soft small" }, name(state.study.name, 60)),
        h("h2", null, wholeName(pool.id)),
        h("p", { class: "tight" }, size(pool), by ? [" · claimed by ", name(by, 40)] : "", asked ? `, ${day.format(new Date(asked))}` : ""),
      ),
      h("figure", { class: "code" }, h("img", { src: code, alt: `Code of the address where ${visible(pool.id)} is answered`, width: 120, height: 120 })),
    ),
    h(
      "table",
      { class: "ticks" },
      h("caption", { class: "unseen" }, "Who goes into ", visible(pool.id)),
      h("thead", null, h("tr", null, heads)),
      h(
        "tbody",
        null,
        members.map((each, i) =>
          h(
            "tr",
            null,
            h("td", { class: "box" }, h("span", { class: "tick", "aria-hidden": "true" })),
            h("td", { class: "number" }, whole(i + 1)),
            h("th", { scope: "row" }, h("bdi", null, visible(each.id))),
            from ? h("td", null, name(each.set.id, 40)) : null,
            weighed ? h("td", { class: "number" }, figure(each.weight, 4)) : null,
            weighed ? h("td", { class: "number" }, share(each)) : null,
          ),
        ),
      ),
    ),
    h("div", { class: "blanks" }, line(`Measured ${measured()}${unit() ? `, in${unit()}` : ""}`), line("Date"), line("Signature")),
    h("p", { class: "soft small address" }, "Type it at ", h("bdi", null, addressOf(pool.position))),
  );
}
