// A result: what the model says, the words to edit, what else can be asked of the same text, and ways to keep it.
import { Job, Stopped, howFar } from "/static/api.js";
import { alongNodes, baselines, model, oneSided, others, point, view } from "/static/form.js";

const at = (id) => document.getElementById(id);
export const el = (name, attributes = {}, ...children) => {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value !== null && value !== undefined) node.setAttribute(key, value);
  node.append(...children.filter((child) => child !== null));
  return node;
};
export const percent = (share) => {
  if ((share >= 0.9995 && share < 1) || (share > 0 && share < 0.0005)) return share > 0.5 ? ">99.9 %" : "<0.1 %";
  return `${Number((100 * share).toPrecision(3))} %`;
};
const signed = (value) => `${value > 0 ? "+" : ""}${value.toFixed(2)}`;
export const button = (text, press, attributes = {}) => {
  const node = el("button", { type: "button", ...attributes }, text);
  node.addEventListener("click", press);
  return node;
};

// What went wrong, into a node: the field's own name before it, the library's words folded away where ours say little.
export const tell = (node, error) => {
  const label = point(error.field);
  node.replaceChildren(el("p", {}, label ? `${label}: ${error.message}` : error.message));
  if (error.more) node.append(el("details", {}, el("summary", {}, "What the library says"), el("p", {}, error.more)));
};

let ask, say, complain;
let job = null; // the finished job on the page
let base = null; // the text as it was asked for, and its result; edits are compared with it
let now = null; // what is shown
let tries = []; // edits made so far, in words

const running = new Set(); // studies under way

export const clear = () => {
  for (const study of running) study.stop();
  for (const id of ["says", "edits", "why", "further", "tools"]) at(id).hidden = true;
  for (const id of ["says", "edits", "result", "why", "further", "studies"]) at(id).replaceChildren();
  delete at("result").dataset.done;
  job = base = now = null;
  tries = [];
  closeWord();
};

// Draw a finished job. `edit`: it is an edited text, to be compared with what was asked before.
export const show = async (done, link, edit) => {
  const [html, found] = [await (await done.as("fragment")).text(), await (await done.as("json")).json()];
  const was = edit ? base : null;
  const kept = edit ? [...tries] : [];
  clear();
  job = done;
  now = { found, text: done.body.text };
  base = was || now;
  tries = kept;
  at("result").innerHTML = html;
  window.pathlensWire();
  at("tools").hidden = false;
  at("permalink").href = link;
  if (view() === "explain") {
    saysWhat();
    offerWords();
    listEdits();
    if (was) moved();
    offerMore();
  }
  if (view() === "rank") offerWhy(found);
  at("result").dataset.done = done.id;
};

// ---- what the model says: every class, one click away

const chances = (found) => {
  const classes = Object.entries(found.probabilities || {});
  if (classes.length) return classes.sort((a, b) => b[1] - a[1]).map(([name, share]) => [name, share, (found.baseline_probabilities || {})[name]]);
  const said = (found.meta.outputs || [])[0];
  if (said === undefined || found.meta.score !== "logprob" || (found.meta.outputs || []).length > 1) return [];
  return [[said, Math.exp(found.certificate.f_input), Math.exp(found.certificate.f_baseline)]];
};

const SHOWN = 8; // classes side by side; a list has the others

const saysWhat = () => {
  const every = chances(now.found);
  if (!every.length) return;
  const before = Object.fromEntries(chances(base.found));
  const classes = Object.keys(now.found.probabilities || {});
  const explained = String(now.found.target).replace(/ \((logit|prob|logprob)\)$/, "");
  const box = at("says");
  box.append(el("h2", {}, classes.length ? "The model says (choose a class to explain it)" : "How likely the model is to say this"));
  const chips = el("div", { class: "classes" });
  const switchTo = (name) => ask({ text: now.text, target: classes.indexOf(name) }, base !== now || tries.length > 0);
  for (const [name, share, start] of every.slice(0, SHOWN)) {
    const inside = [
      el("b", { dir: "auto" }, name),
      el("span", { class: "chance" }, percent(share)),
      el("span", { class: "meter", "aria-hidden": "true" }, el("i", { style: `width:${(100 * share).toFixed(1)}%` })),
      el("small", {}, [base !== now && before[name] !== undefined ? `was ${percent(before[name])}, ` : "", start === undefined ? "" : `baseline ${percent(start)}`].join("")),
    ];
    const on = name === explained;
    chips.append(classes.length ? button("", () => switchTo(name), { class: "class", "aria-pressed": String(on) }) : el("div", { class: "class" }));
    chips.lastChild.append(...inside);
  }
  box.append(chips);
  if (every.length > SHOWN) {
    const list = el("select", { "aria-label": "another class" }, el("option", { value: "" }, `${every.length - SHOWN} other classes …`));
    for (const [name, share] of every.slice(SHOWN)) list.append(el("option", { value: name }, `${name} ${percent(share)}`));
    list.addEventListener("change", () => list.value && switchTo(list.value));
    box.append(list);
  }
  box.hidden = false;
};

// ---- words to mask, delete or replace

let word = null; // the unit whose menu is open, and the element it stands in

const offerWords = () => {
  if (now.found.kind !== "Explanation" || job.body.text_b || job.body.passages || job.body.system) return;
  for (const node of at("result").querySelectorAll(".text .unit[data-units]")) {
    node.setAttribute("role", "button");
    node.setAttribute("aria-haspopup", "dialog");
    node.addEventListener("click", () => openWord(node));
    node.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      openWord(node);
    });
  }
};

const openWord = (node) => {
  const units = node.dataset.units.split(" ").map(Number);
  const spans = units.map((unit) => now.found.offsets[unit]);
  word = { node, start: Math.min(...spans.map((span) => span[0])), end: Math.max(...spans.map((span) => span[1])) };
  const menu = at("word");
  at("word-name").textContent = `“${node.textContent}”`;
  at("word-score").textContent = signed(units.reduce((sum, unit) => sum + now.found.scores[unit], 0));
  menu.querySelector("[data-edit=mask]").hidden = !model().mask;
  menu.querySelector("[name=replacement]").value = "";
  menu.hidden = false;
  placeWord();
  menu.querySelector("button:not([hidden])").focus();
};

const placeWord = () => {
  if (!word) return;
  const menu = at("word");
  const spot = word.node.getBoundingClientRect();
  const left = Math.max(8, Math.min(spot.left, document.documentElement.clientWidth - menu.offsetWidth - 8));
  menu.style.left = `${left + scrollX}px`;
  menu.style.top = `${spot.bottom + scrollY + 6}px`;
};

const closeWord = () => {
  at("word").hidden = true;
  if (word && word.node.isConnected) word.node.focus();
  word = null;
};

const change = (kind, replacement = "") => {
  const letters = [...now.text]; // the server counts characters, not halves of them
  const old = letters.slice(word.start, word.end).join("");
  let before = letters.slice(0, word.start).join("");
  const after = letters.slice(word.end).join("");
  const put = kind === "mask" ? model().mask : kind === "delete" ? "" : replacement;
  if (!put && /\s$/.test(before) && /^(\s|[.,;:!?]|$)/.test(after)) before = before.replace(/\s$/, "");
  const edited = before ? before + put + after : put + (put ? after : after.replace(/^\s/, ""));
  closeWord();
  if (!edited.trim()) return complain(new Error("That was the last word: nothing would be left to explain."));
  tries.push(put ? `${old} → ${put}` : `${old} deleted`);
  const target = base.found.meta.chosen.target;
  return ask({ text: edited, ...(target === undefined ? {} : { target }) }, true);
};

const listEdits = () => {
  if (!tries.length) return;
  const box = at("edits");
  const back = button("Back to your text", () => {
    tries = [];
    ask();
  });
  const keep = button("Keep this text", () => {
    document.querySelector("#ask [name=text]").value = now.text;
    tries = [];
    ask();
  });
  box.append(el("span", {}, "Edited: "), ...tries.map((each) => el("mark", { dir: "auto" }, each)), back, keep);
  box.hidden = false;
};

// which unit of the text before a unit of the edited text is: the longest common list of names
const aligned = (a, b) => {
  const best = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) for (let j = b.length - 1; j >= 0; j--) best[i][j] = a[i] === b[j] ? best[i + 1][j + 1] + 1 : Math.max(best[i + 1][j], best[i][j + 1]);
  const same = new Map();
  for (let i = 0, j = 0; i < a.length && j < b.length; ) {
    if (a[i] === b[j]) same.set(j++, i++);
    else if (best[i + 1][j] >= best[i][j + 1]) i++;
    else j++;
  }
  return same;
};

// every bar starts where it was and goes where it is now; the number before stands beside it
const moved = () => {
  const table = at("result").querySelector("table.bars");
  if (!table) return;
  const same = aligned(base.found.tokens, now.found.tokens);
  const limit = Math.max(1e-12, ...now.found.scores.map(Math.abs));
  for (const row of table.rows) {
    const unit = row.dataset.unit === undefined ? null : +row.dataset.unit;
    const old = unit === null || !same.has(unit) ? null : base.found.scores[same.get(unit)];
    row.insertCell(2).append(row.classList.contains("sum") ? "" : old === null ? "new" : `was ${signed(old)}`);
    row.cells[2].className = "was";
    const bar = row.querySelector("i");
    if (!bar || old === null || !bar.animate || matchMedia("(prefers-reduced-motion: reduce)").matches) continue;
    bar.animate([{ width: `${Math.min(100, (100 * Math.abs(old)) / limit).toFixed(1)}%` }, { width: bar.style.width }], { duration: 600, easing: "ease-out" });
  }
};

// ---- why one document stands above another

const offerWhy = (found) => {
  const count = (found.hits || []).length;
  if (count < 2) return;
  const box = at("why");
  const places = [0, 1].map((first) => {
    const list = el("select", { "aria-label": first ? "below" : "above" });
    for (let k = 0; k < count; k++) list.append(el("option", { value: k }, `${k + 1}. ${found.hits[k].text.slice(0, 60)}`));
    list.value = String((job.body.why || [0, 1])[first]);
    return list;
  });
  const go = button("Why?", () => {
    const [above, below] = places.map((list) => +list.value);
    if (above === below) return complain(new Error("Choose two different documents."));
    return ask({ why: [above, below] });
  });
  box.append(el("span", {}, "Why does "), places[0], el("span", {}, " stand above "), places[1], go);
  box.hidden = false;
};

// ---- what else can be asked of the same text

const STUDIES = {
  compare: { name: "Compare methods", about: "The same text under several methods, baselines or models: where they agree, the finding does not hang on the choice." },
  whatif: { name: "How far to believe it", about: "Every unit is masked, one at a time, and the model run again: the change that its contribution foretold beside the change that came." },
  path: { name: "Along the path", about: "What the model says on the way from the baseline to the text." },
  layers: { name: "Layer by layer", about: "The same contributions, taken at every layer." },
  nodes: { name: "Error against nodes", about: "How fast each rule gets the numbers right." },
};

// as it was asked, whatever the form says by now
const sameQuestion = () => {
  const { method, generate, contrast, template, tree, block, ...rest } = job.body;
  return { rest, method };
};

const offerMore = () => {
  if (now.found.kind !== "Explanation" || job.body.system || job.body.passages) return;
  const box = at("further");
  box.append(el("h2", {}, "Ask further"));
  const line = el("div", { class: "row" });
  for (const [kind, { name }] of Object.entries(STUDIES)) {
    if (kind === "path" && model().generator) continue; // its anchors are an encoder's
    if (kind === "layers" && !model().layers) continue;
    if (kind === "nodes" && !alongNodes().length) continue;
    line.append(button(name, () => openStudy(kind), { "data-study": kind }));
  }
  box.append(line);
  box.hidden = false;
};

const checks = (name, values, on) => {
  const set = el("fieldset", {}, el("legend", {}, name));
  for (const value of values) {
    const box = el("input", { type: "checkbox", name, value });
    box.checked = on.includes(value);
    set.append(el("label", {}, box, ` ${value}`));
  }
  return set;
};

const openStudy = (kind) => {
  const before = at("studies").querySelector(`[data-kind=${kind}]`);
  if (before) return before.scrollIntoView({ block: "nearest" });
  const { name, about } = STUDIES[kind];
  const status = el("output", { role: "status" });
  const content = el("div", { class: "content" });
  const section = el("section", { class: "study", "data-kind": kind, "aria-label": name }, el("h2", {}, name), el("p", { class: "about" }, about));
  let study = null;
  section.append(button("×", () => {
    if (study) study.stop(); // nobody waits for it any more
    section.remove();
  }, { class: "close", "aria-label": `Close: ${name}` }));
  const asking = now;
  const { rest, method } = sameQuestion();
  const run = async () => {
    const ticked = (label) => [...section.querySelectorAll(`input[name="${label}"]:checked`)].map((box) => box.value);
    let sent = { ...rest, text: asking.text };
    if (kind === "compare") {
      delete sent.baseline;
      sent = { ...sent, methods: ticked("methods"), baselines: ticked("baselines"), models: ticked("other models") };
      if (!sent.methods.length) sent.methods = [asking.found.method]; // nothing ticked is one way, and nothing to compare
      for (const list of ["baselines", "models"]) if (!sent[list].length) delete sent[list];
    } else if (kind === "whatif") sent.method = method;
    else if (kind === "layers" && !["dig", "udig"].includes(method)) sent.method = method; // words are at the embeddings alone
    else if (kind === "nodes" && alongNodes().includes(method)) sent.method = method;
    if (kind === "path" || kind === "nodes" || kind === "layers") delete sent.unit;
    if (kind === "layers") delete sent.layer;
    if (study) study.stop();
    study = new Job(kind, sent);
    const mine = study;
    running.add(mine);
    content.replaceChildren();
    section.dataset.done = "";
    try {
      await mine.run((told) => (status.textContent = howFar(told)));
      content.innerHTML = await (await mine.as("fragment")).text();
      window.pathlensWire();
      status.textContent = "";
      section.dataset.done = mine.id;
    } catch (error) {
      if (mine !== study) return; // asked anew meanwhile
      if (error instanceof Stopped) status.textContent = "stopped";
      else tell(status, error);
      section.dataset.done = "failed";
    } finally {
      running.delete(mine);
    }
  };
  if (kind === "compare") {
    const own = now.found.method;
    const boxes = el("div", { class: "row" }, checks("methods", oneSided(), own === "sig" ? ["ig", "sig"] : [own, "sig"]), checks("baselines", baselines(), []));
    if (others().length) boxes.append(checks("other models", others(), []));
    section.append(boxes, button("Compare", run));
  }
  section.append(status, content);
  at("studies").append(section);
  run();
};

// ----

export const wire = (asking, saying, complaining) => {
  [ask, say, complain] = [asking, saying, complaining];
  const menu = at("word");
  for (const each of menu.querySelectorAll("[data-edit]")) each.addEventListener("click", () => change(each.dataset.edit));
  menu.querySelector("form").addEventListener("submit", (event) => {
    event.preventDefault();
    const text = menu.querySelector("[name=replacement]").value.trim();
    if (text) change("replace", text);
  });
  menu.querySelector(".close").addEventListener("click", closeWord);
  window.addEventListener("resize", placeWord);
  document.addEventListener("keydown", (event) => event.key === "Escape" && !menu.hidden && closeWord());
  document.addEventListener("pointerdown", (event) => {
    if (!menu.hidden && !menu.contains(event.target) && !event.target.closest(".unit")) closeWord();
  });
  for (const each of at("tools").querySelectorAll("[data-export]")) {
    each.addEventListener("click", async () => {
      const kind = each.dataset.export;
      try {
        const link = el("a", { href: URL.createObjectURL(await (await job.as(kind)).blob()), download: `pathlens.${kind}` });
        link.click();
        setTimeout(() => URL.revokeObjectURL(link.href), 10000);
      } catch (error) {
        complain(error);
      }
    });
  }
};
