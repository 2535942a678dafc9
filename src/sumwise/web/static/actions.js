// What people do to a set. Each function asks for what it needs, sends it, and confirms it.

import { send } from "./api.js";
import { ask, field, KEEP_OPEN, reason } from "./dialogs.js";
import { h, name } from "./dom.js";
import { estimate, figures, percent, person } from "./pieces.js";
import { named } from "./who.js";
import { notice } from "./notices.js";
import { exact, impossible, parse } from "./numbers.js";
import { partFields, partOf, refusedField } from "./part.js";
import { emit, inUnit, isPool, isWhole, kindOf, measured, outputs, signed, unit, who, word } from "./store.js";

// what this page did itself: not announced again when it comes back as an event
const own = [];

export function mark(what, position) {
  own.push({ what, position, at: Date.now() });
}

/** Whether an event is this page's own doing; each is recognised once. */
export function ownDoing(event) {
  const found = own.findIndex(
    ({ what, position, at }) => what === event.what && position === event.set?.position && Date.now() - at < 60_000,
  );
  if (found < 0) return false;
  own.splice(found, 1);
  return true;
}

async function done(what, position, words) {
  mark(what, position);
  notice(words, "done");
  emit("done");
}

/** Run `work` without a dialog; a failure is shown as a notice and gives false. */
async function quietly(work) {
  try {
    return (await work()) ?? true;
  } catch (error) {
    notice(error.message, "trouble");
    emit("done"); // what is shown may be out of date
    return false;
  }
}

export async function claim(set) {
  if (!(await named())) return false;
  return quietly(async () => {
    // a pool that is proposed has no position yet
    const question = await send("POST", "/api/claims", signed(set.position === null ? { set: set.id } : { position: set.position }));
    await done("asked", question.position, [name(set.id), " is yours to measure."]);
    const people = ({ members }) => (members ?? []).map(({ id }) => id).join("\n");
    if (set.members && people(set) !== people(question)) notice([name(set.id), " has been designed again: check its members."]);
    return question;
  });
}

export async function askForMe() {
  if (!(await named())) return false;
  return quietly(async () => {
    const { questions } = await send("POST", "/api/questions", signed({ n: 1 }));
    await done("asked", questions[0].position, ["Please measure ", name(questions[0].id), "."]);
    return questions[0];
  });
}

/** Release a claim; releasing another person's claim has to be confirmed. */
export function release(set, holder) {
  const submit = async () => {
    await send("POST", `/api/claims/${set.position}/release`, signed({}));
    await done("released", set.position, ["Gave back ", name(set.id), "."]);
  };
  if ((holder ?? "") === who()) return quietly(submit);
  return ask({
    title: ["Give back ", name(set.id), "?"],
    words: h("p", null, "It is claimed by ", person(holder), isPool(set.position) ? ". After that, its members may go into other pools." : ". After that, anyone may claim it."),
    confirm: "Give it back",
    calm: true,
    submit,
  });
}

export function renew(set) {
  return quietly(async () => {
    await send("POST", `/api/claims/${set.position}/renew`, signed({}));
    await done("renewed", set.position, ["Kept ", name(set.id), " for longer."]);
  });
}

export function unskip(set) {
  return quietly(async () => {
    await send("POST", `/api/skips/${set.position}/undo`, signed({}));
    await done("unskipped", set.position, [name(set.id), " may be asked for again."]);
  });
}

const SKIPPED = {
  set: "A skipped set is not asked for.",
  pool: "A skipped pool is not measured, and its members count as used.",
  individual: "An individual that is set aside goes into no further pool.",
};

export function skip(set) {
  const kind = kindOf(set.position);
  const why = reason("Why can it not be measured?");
  return ask({
    title: [kind === "individual" ? "Set aside " : "Skip ", name(set.id), "?"],
    words: h("p", null, `${SKIPPED[kind]} The skip can be taken back under History.`),
    fields: [why],
    confirm: kind === "individual" ? "Set it aside" : "Skip it",
    check: why.missing,
    submit: async () => {
      await send("POST", "/api/skips", signed({ position: set.position, note: why.input.value.trim() }));
      await done("skipped", set.position, ["Skipped ", name(set.id), "."]);
    },
  });
}

export function retract(set, answer) {
  const why = reason("Why is it taken back?");
  return ask({
    title: ["Retract the answer for ", name(set.id), "?"],
    words: h("p", null, `The ${word()} ${exact(answer.total)}${unit()} no longer counts, and ${isPool(set.position) ? "the members of the pool may go into others" : "the set may be asked for again"}. History keeps what was said.`),
    fields: [why],
    confirm: "Retract it",
    danger: true,
    check: why.missing,
    submit: async () => {
      await send("POST", `/api/answers/${set.position}/retract`, signed({ note: why.input.value.trim() }));
      await done("retracted", set.position, ["Retracted the answer for ", name(set.id), "."]);
    },
  });
}

/** Correct an answer; `typed` holds total, share and members to start from, as they were typed. */
export function amend(set, answer, typed = null) {
  const whole = !answer.of && !answer.covers;
  const measuredNow = answer.covers && word() !== "mean" ? Number((answer.total * answer.covers).toPrecision(12)) : answer.total;
  const total = field(`Measured ${measured()}${inUnit()}`, { value: typed?.total || String(measuredNow), inputmode: isWhole() ? "numeric" : "decimal", maxlength: 100 });
  const part = partFields(kindOf(set.position));
  part.element.hidden = set.size === 1;
  part.put(typed ?? partOf(answer));
  const why = reason("Why is it changed?");
  let sent = {};
  return ask({
    title: ["Amend the answer for ", name(set.id)],
    words: h("p", null, `So far it is ${exact(answer.total)}${unit()}${answer.part ? ` (${answer.part})` : ""}. The new ${word()} takes its place, and history keeps both.`),
    fields: [total, part, why],
    confirm: "Save the change",
    check: () => {
      const read = parse(total.input.value);
      const odd = read.problem ?? impossible(read.value, outputs());
      if (odd) return [total, odd];
      const { problem, ...covered } = part.read();
      if (problem) return problem;
      sent = signed({ total: read.value, note: why.input.value.trim(), ...covered });
      if (!whole && !covered.of && !covered.covers) sent.covers = 1; // it covers all of the set now
      return why.missing();
    },
    submit: async () => {
      const save = (sure) => send("PATCH", `/api/answers/${set.position}`, sure ? { ...sent, sure } : sent);
      let saved;
      try {
        saved = await save(false);
      } catch (error) {
        const where = refusedField(error, total, part);
        if (where) where.complain(error.message);
        if (where) return KEEP_OPEN;
        if (error.code !== "unlikely") throw error;
        saved = await confirmUnlikely(set, sent.total, error.body, () => save(true));
        if (!saved) return KEEP_OPEN;
      }
      await done("amended", set.position, ["Changed ", name(set.id), ` to ${exact(saved.total)}${unit()}.`]);
    },
  });
}

/** Ask whether a total far from its prediction is really meant. */
export function confirmUnlikely(set, total, { expected, std, lower, upper }, submit) {
  const [low, high] = figures(std, lower, upper);
  return ask({
    title: "Sure?",
    words: [
      h("p", null, `This is far from the ${measured()} that is predicted for `, name(set.id), "."),
      h(
        "dl",
        { class: "facts compare" },
        h("div", null, h("dt", null, "Predicted"), h("dd", null, h("strong", null, estimate(expected, std)), unit(), h("span", { class: "soft" }, ` ${percent()} within ${low} to ${high}`))),
        h("div", null, h("dt", null, "You typed"), h("dd", null, h("strong", null, exact(total)), unit())),
      ),
      h("p", null, "If it is what was measured, save it: the prediction may be wrong. This question catches an extra digit or a wrong unit."),
    ],
    confirm: `Yes, save ${exact(total)}`,
    cancel: "Change it",
    calm: true,
    submit,
  });
}
