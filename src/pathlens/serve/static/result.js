// A result: what the model says, the words to edit, what else can be asked of the same text, and ways to keep it.
import { Job, Stopped, howFar } from "/static/api.js";
import { alongNodes, atLayers, baselines, besides, model, others, point, scoredBy, usualBaseline, view } from "/static/form.js";

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
// what a generator wrote, on one line: a line break is output like any other
const oneLine = (text) => (text.replace(/^ /, "") || text).replace(/\r?\n/g, "↵");
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
  for (const id of ["says", "edits", "hint", "why", "further", "tools"]) at(id).hidden = true;
  for (const id of ["says", "edits", "result", "why", "further", "studies"]) at(id).replaceChildren();
  delete at("result").dataset.done;
  job = base = now = null;
  tries = [];
  closeWord();
};

// What came of a finished job, as it is drawn and as it is.
export const read = async (done) => ({ html: await (await done.as("fragment")).text(), result: await (await done.as("json")).json() });

// Draw it. `edit`: it is an edited text, to be compared with what was asked before.
export const show = (done, { html, result }, link, edit) => {
  const was = edit ? base : null;
  const kept = edit ? [...tries] : [];
  clear();
  job = done;
  now = { result, text: done.body.text };
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
  }
  offerMore();
  if (view() === "rank") offerWhy(result);
  at("result").dataset.done = done.id;
};

// ---- what the model says: every class, tag or word, one click away where something asks for it

const chances = (result) => {
  const classes = Object.entries(result.probabilities || {});
  if (classes.length) return classes.sort((a, b) => b[1] - a[1]).map(([name, share]) => [name, share, (result.baseline_probabilities || {})[name]]);
  const words = (result.meta.outputs || [])[0];
  const chance = { logprob: Math.exp, prob: (value) => value }[result.meta.score];
  if (words === undefined || !chance || result.meta.outputs.length > 1 || result.certificate.kind === "vector") return [];
  return [[oneLine(words), chance(result.certificate.f_input), chance(result.certificate.f_baseline)]];
};

const SHOWN = 8; // classes side by side; a list has the others
const same = (one, other) => JSON.stringify(one) === JSON.stringify(other); // of targets: numbers, names, lists of these

const saysWhat = () => {
  const every = chances(now.result);
  if (!every.length) return;
  const before = new Map(chances(base.result));
  const { targets = {}, chosen, about } = now.result.meta; // as the record has it: what asks for a name, and what was asked for
  const asks = (name) => Object.hasOwn(targets, name);
  const explained = (name) => (asks(name) ? same(targets[name], chosen.target) : Boolean(about) && name === about.asked);
  const choose = every.some(([name]) => asks(name)) ? ` (choose ${about ? "one" : "a class"} to explain it)` : "";
  const place = about && about.place ? `, ${about.place}` : "";
  const box = at("says");
  const written = !Object.keys(now.result.probabilities || {}).length;
  box.append(el("h2", {}, written ? "How likely the model is to say this" : `The model says${place}${choose}`));
  const chips = el("div", { class: "classes" });
  const switchTo = (name) => ask({ text: now.text, target: targets[name] }, base !== now || tries.length > 0);
  for (const [name, share, start] of every.slice(0, SHOWN)) {
    const inside = [
      el("b", { dir: "auto" }, name),
      el("span", { class: "chance" }, percent(share)),
      el("span", { class: "meter", "aria-hidden": "true" }, el("i", { style: `width:${(100 * share).toFixed(1)}%` })),
      el("small", {}, [base !== now && before.has(name) ? `was ${percent(before.get(name))}, ` : "", start === undefined ? "" : `baseline ${percent(start)}`].join("")),
    ];
    const on = explained(name);
    chips.append(asks(name) ? button("", () => switchTo(name), { class: "class", "aria-pressed": String(on) }) : el("div", { class: "class", "aria-current": on ? "true" : null }));
    chips.lastChild.append(...inside);
  }
  box.append(chips);
  const others = every.slice(SHOWN);
  if (others.length && !choose) box.append(el("p", { class: "about" }, `${others.length} ${about ? "others" : "other classes"}`));
  else if (others.length) {
    const list = el("select", { "aria-label": "another class" }, el("option", { value: "" }, `${others.length} ${about ? "others" : "other classes"} …`));
    for (const [name, share] of others) list.append(el("option", { value: name }, `${name} ${percent(share)}`));
    list.addEventListener("change", () => list.value && switchTo(list.value));
    box.append(list);
  }
  box.hidden = false;
};

// ---- words to mask, delete or replace

let word = null; // the unit whose menu is open, and the element it stands in

// what asks for the same of an edited text: of the only gap its word, wherever the gap is then
const again = ({ chosen, gaps = [] }) => (gaps.length === 1 && Array.isArray(chosen.target) ? chosen.target[1] : chosen.target);
const asksForPlace = () => Array.isArray(again(now.result.meta));

const spanOf = (node) => {
  const spans = node.dataset.units.split(" ").map((unit) => now.result.offsets[unit]);
  return { start: Math.min(...spans.map((span) => span[0])), end: Math.max(...spans.map((span) => span[1])) };
};

// only characters of the text that was typed can be changed in it: not those of a second text, a template or what was said
const offerWords = () => {
  if (!["Explanation", "Interactions", "Continuation"].includes(now.result.kind) || job.body.text_b || asChat()) return;
  const letters = [...now.text]; // the server counts characters, not halves of them
  const { about } = now.result.meta;
  const stays = (asksForPlace() && about && about.end) || 0; // an edit before it would leave another token at its place
  for (const node of at("result").querySelectorAll(".text .unit[data-units]")) {
    const { start, end } = spanOf(node);
    if (start < stays || letters.slice(start, end).join("").trim() !== node.textContent.trim()) continue;
    const where = now.result.kind === "Continuation" ? "of the prompt" : stays ? "after what is explained" : "of the text";
    at("hint").textContent = `Click a ${job.body.unit === "word" ? "word" : "part"} ${where} to mask, delete or replace it, and see what moves.`;
    at("hint").hidden = false;
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

const score = (unit) => (now.result.scores ? now.result.scores[unit] : now.result.matrix[unit].reduce((sum, value) => sum + value, 0));

const openWord = (node) => {
  const units = node.dataset.units.split(" ").map(Number);
  word = { node, ...spanOf(node) };
  const menu = at("word");
  at("word-name").textContent = `“${node.textContent}”`;
  at("word-score").textContent = signed(units.reduce((sum, unit) => sum + score(unit), 0));
  menu.querySelector("[data-edit=mask]").hidden = !model().mask || model().kind === "masked language model"; // one gap more
  menu.querySelector("[name=replacement]").value = "";
  menu.querySelector("[name=replacement]").removeAttribute("aria-invalid");
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
  tries.push(put ? `“${old}” → “${put}”` : `“${old}” deleted`);
  // what was said stays what is explained, the model's own words too
  const written = job.body.generate === undefined ? {} : { target: base.result.meta.outputs[0], generate: undefined };
  const target = again(base.result.meta);
  return ask({ text: edited, ...(target === undefined ? {} : { target }), ...written }, true);
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
  if (!table || now.result.kind !== "Explanation" || base.result.kind !== "Explanation") return;
  const same = aligned(base.result.tokens, now.result.tokens);
  const limit = Math.max(1e-12, ...now.result.scores.map(Math.abs));
  for (const row of table.rows) {
    const unit = row.dataset.unit === undefined ? null : +row.dataset.unit;
    const old = unit === null || !same.has(unit) ? null : base.result.scores[same.get(unit)];
    row.insertCell(2).append(row.classList.contains("sum") ? "" : old === null ? "new" : `was ${signed(old)}`);
    row.cells[2].className = "was";
    const bar = row.querySelector("i");
    if (!bar || old === null || !bar.animate || matchMedia("(prefers-reduced-motion: reduce)").matches) continue;
    bar.animate([{ width: `${Math.min(100, (100 * Math.abs(old)) / limit).toFixed(1)}%` }, { width: bar.style.width }], { duration: 600, easing: "ease-out" });
  }
};

// ---- why one document stands above another

const offerWhy = (result) => {
  const count = (result.hits || []).length;
  if (count < 2) return;
  const box = at("why");
  const places = [0, 1].map((first) => {
    const list = el("select", { "aria-label": first ? "below" : "above" });
    for (let k = 0; k < count; k++) list.append(el("option", { value: k }, `${k + 1}. ${result.hits[k].text.slice(0, 60)}`));
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
  compare: {
    name: "Compare methods",
    about: "The same text under several methods, baselines or models: where they agree, the answer does not depend on the choice.",
    of: { Answer: { about: "The same sentence of the answer under several methods; one of them leaves out every source in turn, and so says what happens without it." } },
  },
  whatif: {
    name: "How far to believe it",
    about: "Every word is masked, one at a time, and the model is asked again: the change that its score predicts beside the change that it makes.",
    of: {
      PairExplanation: { about: "A cell belongs to two words and cannot be masked. So every word of the first text is scored by itself, beside the second text, then masked, one at a time: the change of the similarity that its score predicts beside the change that it makes." },
      Interactions: { about: "What a row of the table sums to is the word's score. Every word is masked, one at a time: the change that its score predicts beside the change that it makes." },
      PhraseTree: { about: "Under the phrases are scores of words. Every word is masked, one at a time: the change that its score predicts beside the change that it makes." },
    },
  },
  path: { name: "Along the path", about: "What the model says between the baseline and the text." },
  layers: { name: "Layer by layer", about: "The same contributions, taken at every layer." },
  nodes: { name: "Error against nodes", about: "How fast each rule gets the numbers right." },
};

// a chat has parts that a study of one text does not read
const asChat = () => Boolean(job.body.system || job.body.passages || job.body.template);
// what is shown: of a search its hits are pairs
const shownKind = () => (view() === "answer" ? "Answer" : view() === "rank" ? "PairExplanation" : now.result.kind);

// as it was asked, whatever the form says by now; of a search, the query and one hit
const sameQuestion = (section) => {
  const { method, tree, query, documents, top, why, ...rest } = job.body;
  if (view() === "answer") return { ...rest, reply: now.result.answer, sentence: +section.querySelector("[name=sentence]").value };
  if (view() === "rank") return { ...rest, text: query, text_b: now.result.hits[section.querySelector("[name=hit]").value].text };
  return { ...rest, text: now.text };
};

// what a study needs to be of use beside what is shown
const applies = (kind) => {
  const shown = shownKind();
  const byUnit = ["Explanation", "Interactions", "PhraseTree"].includes(shown);
  const several = shown !== "Explanation" && model().generator && (job.body.generate > 1 || job.body.target !== undefined); // token by token
  if (kind === "compare") return besides(shown, job.body).length + baselines().length > 1;
  if (kind === "whatif") return Boolean(scoredBy(shown, now.result.method || job.body.method)) && !several;
  if (kind === "path") return byUnit && !model().generator; // its anchors are an encoder's
  if (kind === "layers") return model().layers > 0 && (byUnit || (shown === "VectorExplanation" && !job.body.block)) && !several;
  return byUnit && alongNodes().includes(now.result.method || job.body.method); // of another method it would be another one's error
};

const offerMore = () => {
  if (asChat()) return;
  const box = at("further");
  const offered = Object.keys(STUDIES).filter(applies);
  if (!offered.length) return;
  box.append(el("h2", {}, "Ask further"), el("div", { class: "row" }, ...offered.map((kind) => button(STUDIES[kind].name, () => openStudy(kind), { "data-study": kind }))));
  box.hidden = false;
};

// of a search, which hit; of an answer, which sentence
const whichOne = (run) => {
  const list = { rank: ["hit", "Of the hit", (now.result.hits || []).map((hit, k) => `${k + 1}. ${hit.text}`)], answer: ["sentence", "Of the sentence", (now.result.sentence_offsets || []).map(([start, end]) => [...now.result.answer].slice(start, end).join(""))] }[view()];
  if (!list) return null;
  const [name, title, texts] = list;
  const choose = el("select", { name }, ...texts.map((text, k) => el("option", { value: k }, text.slice(0, 60))));
  choose.addEventListener("change", run);
  return el("label", { class: "which" }, `${title} `, choose);
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
  const { name, about } = { ...STUDIES[kind], ...((STUDIES[kind].of || {})[shownKind()] || {}) };
  const status = el("output", { role: "status" });
  const content = el("div", { class: "content" });
  const section = el("section", { class: "study", "data-kind": kind, "aria-label": name }, el("h2", {}, name), el("p", { class: "about" }, about));
  let study = null;
  section.append(button("×", () => {
    if (study) study.stop(); // nobody waits for it any more
    section.remove();
  }, { class: "close", "aria-label": `Close: ${name}` }));
  const method = now.result.method || job.body.method;
  const scores = scoredBy(shownKind(), method) || method;
  const run = async () => {
    const ticked = (label) => [...section.querySelectorAll(`input[name="${label}"]:checked`)].map((box) => box.value);
    const sent = sameQuestion(section);
    if (kind === "compare") {
      sent.methods = ticked("methods");
      if (!sent.methods.length) sent.methods = [method]; // nothing ticked is one way, and nothing to compare
      for (const [list, label] of [["baselines", "baselines"], ["models", "other models"]]) if (ticked(label).length) sent[list] = ticked(label);
      if (sent.baselines) delete sent.baseline;
    } else if (kind === "whatif") {
      sent.method = scores;
      sent.unit ||= "word"; // phrases come at every size
    } else if (kind === "layers" && atLayers().includes(scores)) sent.method = scores; // words are at the embeddings alone
    else if (kind === "nodes") sent.method = method;
    if (kind === "path" || kind === "nodes" || kind === "layers") delete sent.unit;
    if (kind === "layers") delete sent.layer;
    if (study) study.stop();
    study = new Job(kind === "compare" && view() === "answer" ? "answers" : kind, sent);
    const mine = study;
    running.add(mine);
    content.replaceChildren();
    section.dataset.done = "";
    try {
      await mine.run((progress) => (status.textContent = howFar(progress)));
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
    const beside = besides(shownKind(), job.body);
    const boxes = el("div", { class: "row" }, checks("methods", beside, [method, beside.find((each) => each !== method)]));
    if (view() !== "answer") boxes.append(checks("baselines", baselines(), beside.length > 1 ? [job.body.baseline || usualBaseline()] : baselines().slice(0, 2)));
    if (view() !== "answer" && others().length) boxes.append(checks("other models", others(), []));
    section.append(boxes, button("Compare", run));
  }
  const which = whichOne(run);
  if (which) section.querySelector(".about").after(which);
  section.append(status, content);
  at("studies").append(section);
  section.scrollIntoView({ block: "nearest" });
  run();
};

// ----

export const wire = (asking, saying, complaining) => {
  [ask, say, complain] = [asking, saying, complaining];
  const menu = at("word");
  for (const each of menu.querySelectorAll("[data-edit]")) each.addEventListener("click", () => change(each.dataset.edit));
  menu.querySelector("form").addEventListener("submit", (event) => {
    event.preventDefault();
    const field = menu.querySelector("[name=replacement]");
    const text = field.value.trim();
    field.setAttribute("aria-invalid", String(!text));
    if (text) change("replace", text);
    else field.focus();
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
