// A table of texts: read from a file, predicted in pieces, sorted and filtered; a row opens to its explanation.
import { Job, Stopped, howFar } from "/static/api.js";
import { atLayers, form, limits, model, oneSided, option, view, views } from "/static/form.js";
import { button, el, percent, tell } from "/static/result.js";

const EXAMPLE = `text,label
"A warm, funny and moving film.",positive
"Not really funny, but moving.",positive
"Dull, and far too long.",negative
"The best thing about it is that it ends.",negative
"I did not expect to like it, and I did.",positive
"Not bad at all.",positive
"A clever idea, badly told.",negative
"Two hours that I would like to have back.",negative
"Beautiful pictures and nothing to say.",negative
"It has its moments.",positive`;
const ALL = "Strongest words of every row shown";
const PIECE = 32; // texts of one request
const PAGE = 50; // rows drawn at once
const LOAD = 200000; // of one request
const HEADS = { number: "#", text: "Text", label: "True class", prediction: "Prediction", chance: "Probability", true_chance: "Of the true class", sure: "Lead over the next", top: "Strongest words" };
const TEXTS = ["text", "sentence", "review", "document", "content", "comment", "body", "question", "title"]; // the surest first
const CLASSES = /^((gold|true)[ _-]?)?(labels?|class(es)?|targets?)$|^(gold|true)$/i;

const at = (id) => document.getElementById(id);
const pick = (name) => form.elements[name];
let head = [];
let lines = []; // what was read and is whole: { number, cells }
let leftOut = null; // rows with more or fewer cells than the first line: how many, of how many, and the first of them
let rows = []; // what is shown: { number, text, label, prediction, probabilities, sure, error }, its line `tr`, and `detail` where it is open
let [asked, stopped] = [0, false]; // how many rows were to be predicted, and whether that was called off before the last
let sort = { key: "number", down: false };
let filter = { text: "", prediction: "", label: "", wrong: false };
let shown = PAGE;

// ---- reading

const separators = [",", "\t", ";"];

// cells of a text with quoted fields; a quote inside one is written twice. `stray`: its quotes are none of that kind; `open`:
// the line of a quote that is never closed, or 0
const cells = (text, by) => {
  const records = [];
  let row = [];
  let cell = "";
  let [quoted, closed, stray, from] = [false, false, false, 0];
  const close = () => {
    row.push(cell);
    [cell, closed] = ["", false];
  };
  for (let k = 0; k < text.length; k++) {
    const c = text[k];
    if (quoted) {
      if (c !== '"') cell += c;
      else if (text[k + 1] === '"') cell += text[++k];
      else [quoted, closed] = [false, true];
    } else if (c === '"' && !cell.trim()) {
      cell = "";
      quoted = true;
      from = k;
    } else if (c === by) close();
    else if (c === "\n" || c === "\r") {
      if (c === "\r" && text[k + 1] === "\n") k++;
      close();
      records.push(row);
      row = [];
    } else {
      stray ||= closed && c.trim() !== "";
      cell += c;
    }
  }
  close();
  records.push(row);
  return { records: records.filter((each) => each.some((value) => value.trim())), stray: stray || quoted, open: quoted ? text.slice(0, from).split(/\r\n|\r|\n/).length : 0 };
};

// the separator that gives most lines as many cells as the first has, more than one
const read = (text) => {
  const clean = text.replace(/^\ufeff/, "");
  const tried = separators.map((by) => {
    const { records, open } = cells(clean, by);
    const wide = records.length ? records[0].length : 0;
    return { records, open, wide, fit: wide > 1 ? records.filter((row) => row.length === wide).length / records.length : 0 };
  });
  const best = tried.reduce((a, b) => (b.fit > a.fit + 1e-9 ? b : a));
  if (best.fit && best.open) throw new Error(`A quote opens in line ${best.open} and is never closed, so everything after it would be one cell. Close it, or take it away.`);
  if (best.fit) return best.records;
  const one = cells(clean, null); // a single column
  return one.stray ? inLines(clean) : one.records;
};

// The first line of a table names its columns, as the library has it, unless something in it can only be a text or a class.
const PROSE = /[.!?…。！？]["”’)]?$/u;
const sureness = (name) => TEXTS.findIndex((each) => [each, `${each}s`].includes(name.toLowerCase())); // -1: no text by its name
const isText = (cell) => cell.length > 40 || cell.split(/\s+/).length > 4 || PROSE.test(cell);
const isName = (cell) => sureness(cell) >= 0 || CLASSES.test(cell);
const looksNamed = (first) => first.some((cell) => sureness(cell) >= 0) || !first.some((cell) => isText(cell) || labelOf(cell) !== null);

// nothing that was read before stays where what comes next cannot be
const forget = (text = "", unsplit = false) => {
  [head, lines, leftOut, loaded, plain] = [[], [], null, text, unsplit];
  at("columns").hidden = at("remarks").hidden = true;
};

const inLines = (text) => text.replace(/^\ufeff/, "").split(/\r\n|\r|\n/).filter((line) => line.trim()).map((line) => [line]);

const load = (text) => {
  forget(text, plain);
  const records = plain ? inLines(text) : read(text);
  if (!records.length) throw new Error("There are no rows in it. Every line is a text; the first may name the columns.");
  const named = at("named").checked;
  head = named ? records[0].map((cell, k) => cell.trim() || `column ${k + 1}`) : records[0].map((_, k) => (records[0].length === 1 ? "text" : `column ${k + 1}`));
  const all = (named ? records.slice(1) : records).map((row, k) => ({ number: k + 1, cells: row }));
  if (!all.length) throw new Error("There is one line only, and it names the columns. Untick “The first line names the columns” if it is a text.");
  lines = all.filter((row) => row.cells.length === head.length);
  const bad = all.filter((row) => row.cells.length !== head.length);
  if (bad.length) leftOut = { count: bad.length, of: all.length, first: `row ${bad[0].number} has ${bad[0].cells.length} fields where ${head.length} were expected: a stray separator or quote` };
  if (!lines.length) throw new Error(`None of the ${all.length} rows can be read: ${leftOut.first}.`);
  const mean = (k) => lines.reduce((sum, row) => sum + row.cells[k].length, 0) / lines.length;
  const places = head.map((_, k) => k);
  const texts = places.filter((k) => sureness(head[k]) >= 0);
  const unnamed = places.filter((k) => !CLASSES.test(head[k]));
  const text_at = texts.length ? texts.reduce((a, b) => (sureness(head[b]) < sureness(head[a]) ? b : a)) : (unnamed.length ? unnamed : places).reduce((a, b) => (mean(b) > mean(a) ? b : a));
  pick("text_column").replaceChildren(...places.map((k) => option(String(k), head[k])));
  pick("text_column").value = String(text_at);
  pick("label_column").replaceChildren(option("", "no column"), ...places.map((k) => option(String(k), head[k])));
  at("columns").hidden = head.length < 2;
  chooseClasses();
};

// a cell as one of the model's classes: its name in any case, or its number, as 1.0 too; null where it is none
const labelOf = (cell) => {
  const labels = model().labels;
  const word = (cell || "").trim();
  const name = labels.find((label) => label.toLowerCase() === word.toLowerCase());
  return name !== undefined ? name : /^\d+(\.0+)?$/.test(word) && +word < labels.length ? labels[+word] : null;
};

// the first row of a column that holds something else than this model's classes
const strangeIn = (k) => lines.find((row) => row.cells[k].trim() && labelOf(row.cells[k]) === null);
const noClass = (row, k) => `“${row.cells[k].trim()}” in row ${row.number} is none of this model's classes (${model().labels.slice(0, 8).join(", ")})`;
const calledClasses = () => head.map((_, k) => k).filter((k) => k !== +pick("text_column").value && CLASSES.test(head[k]) && lines.some((row) => row.cells[k].trim()));

// The true classes are in the column that is called so. Where none is, in the first that holds nothing but classes.
const chooseClasses = () => {
  const called = calledClasses();
  const any = head.map((_, k) => k).filter((k) => k !== +pick("text_column").value && lines.some((row) => row.cells[k].trim()));
  const chosen = (called.length ? called : any).find((k) => !strangeIn(k));
  pick("label_column").value = chosen === undefined ? "" : String(chosen);
  chosenFor = model().name;
  remark();
};
let chosenFor = ""; // the model whose classes the columns were looked through for

// what was not taken from the rows, and why
const remark = () => {
  const [chosen, called] = [pick("label_column").value, calledClasses()];
  const k = chosen === "" ? called[0] : +chosen;
  const strange = k === undefined ? undefined : strangeIn(k);
  const notes = [guessed && asNames(), leftOut && missing(), strange && `No true classes are taken from “${head[k]}”: ${noClass(strange, k)}.`].filter(Boolean);
  at("remarks").replaceChildren(...notes.map((note) => el("p", {}, note)));
  at("remarks").hidden = !notes.length;
};
const asNames = () => `The first line (${head.map((name) => name.slice(0, 40)).slice(0, 8).join(", ")}) is taken as ${head.length > 1 ? "names of columns" : "the name of the column"}; untick “The first line names the columns” if it is a row.`;
const missing = () => `${leftOut.count} of ${leftOut.of} rows ${leftOut.count === 1 ? "is" : "are"} left out; ${leftOut.count === 1 ? "" : "the first: "}${leftOut.first}.`;

const learn = (text, unsplit = false) => {
  forget(text, unsplit);
  const first = plain ? [] : (read(text)[0] || []).map((cell) => cell.trim());
  at("named").checked = !plain && looksNamed(first);
  guessed = at("named").checked && !first.some(isName);
  load(text);
};
let guessed = false; // the first line names the columns for all that can be seen, and nothing in it is known to be a name

const take = (text, unsplit = false) => {
  at("rows").value = text.length > 20000 ? "" : text;
  at("rows").placeholder = text.length > 20000 ? "the file is read; choose its columns and press Predict" : "";
  learn(text, unsplit);
};
let loaded = "";
let plain = false; // a text a line, as a .txt file has them: no columns, and no line that names them

// ---- predicting

export const job = () => ({ warnings: [], part: null, stopped: false, async stop() {
  this.stopped = true;
  if (this.part) await this.part.stop();
} });

export const predict = async (whole, say) => {
  const typed = at("rows").value.trim();
  if (typed && (typed !== loaded.trim() || !lines.length)) take(typed);
  if (!lines.length) throw new Error("There are no rows yet: choose a file, drop one, or paste some.");
  if (chosenFor !== model().name) chooseClasses();
  const [text_at, label_at] = [+pick("text_column").value, pick("label_column").value];
  const strange = label_at === "" ? undefined : strangeIn(+label_at);
  if (strange) throw new Error(`${noClass(strange, +label_at)}. Choose another column for the true classes, or none.`);
  const every = lines.map(({ number, cells }) => ({ number, text: cells[text_at].trim(), label: label_at === "" ? null : labelOf(cells[+label_at]) }));
  const mine = (rows = []);
  [asked, stopped] = [every.length, false];
  [sort, filter, shown] = [{ key: "number", down: false }, { text: "", prediction: "", label: "", wrong: false }, PAGE];
  frame(label_at !== "");
  try {
    await predictAll(every, mine, whole, say);
  } catch (error) {
    if (error instanceof Stopped && rows === mine) {
      stopped = true;
      draw();
    }
    throw error;
  }
  at("table").dataset.done = whole.part.id || "done";
};

// every row, piece by piece, into `mine`, for as long as that is what is shown
const predictAll = async (every, mine, whole, say) => {
  const named = model().name;
  for (let k = 0, next = 0; k < every.length; k = next) {
    for (let load = 0; next < every.length && next < k + PIECE && (next === k || load + every[next].text.length <= LOAD); next++) load += every[next].text.length;
    const piece = every.slice(k, next);
    for (const row of piece) row.error = !row.text ? "there is no text in this row" : row.text.length > limits.characters ? `longer than ${limits.characters} characters` : undefined;
    const full = piece.filter((row) => !row.error);
    const part = (whole.part = new Job("predict", { model: named, texts: full.map((row) => row.text) }));
    if (whole.stopped) throw new Stopped("stopped");
    if (full.length) {
      await part.run();
      const predictions = await (await part.as("json")).json();
      if (rows !== mine) throw new Stopped("another table is shown");
      full.forEach((row, i) => Object.assign(row, predictions.rows[i]));
    }
    for (const row of piece) {
      if (row.words) row.error = row.words;
      if (row.probabilities) {
        const shares = Object.values(row.probabilities).sort((a, b) => b - a);
        row.chance = shares[0];
        row.sure = shares[0] - (shares[1] || 0);
        row.wrong = row.label !== null && row.label !== row.prediction;
        row.true_chance = row.label === null ? null : row.probabilities[row.label];
      }
    }
    mine.push(...piece);
    say(`${mine.length} of ${every.length} rows`);
    draw();
  }
};

// ---- showing

const box = () => at("table");
const part = (name) => box().querySelector(`[data-part=${name}]`);

const frame = (labelled) => {
  const keep = el("input", { type: "search", placeholder: "words in the text", "aria-label": "Filter by words in the text" });
  keep.addEventListener("input", () => {
    filter.text = keep.value.toLowerCase();
    refresh();
  });
  const choose = (key, name) => {
    const list = el("select", { "aria-label": name, "data-key": key }, el("option", { value: "" }, name), ...model().labels.map((label) => option(label)));
    list.addEventListener("change", () => {
      filter[key] = list.value;
      refresh();
    });
    return list;
  };
  const wrong = el("input", { type: "checkbox", "data-key": "wrong" });
  wrong.addEventListener("change", () => {
    filter.wrong = wrong.checked;
    refresh();
  });
  const order = (key, down) => () => {
    sort = { key, down };
    filter.wrong = key === "true_chance"; // of the wrong ones the worst; of all the least sure
    refresh();
  };
  const bar = el("div", { class: "row choose" }, keep, choose("prediction", "every prediction"));
  if (labelled) bar.append(choose("label", "every true class"), el("label", {}, wrong, " only wrong ones"), button("Most wrong", order("true_chance", false)));
  bar.append(button("Most unsure", order("sure", false)), button("As in the file", order("number", false)), el("output", { class: "count" }));
  const columns = Object.entries(HEADS).filter(([key]) => labelled || !["label", "true_chance"].includes(key));
  const heads = columns.map(([key, name]) => {
    const press = button(name, () => {
      sort = { key, down: sort.key === key ? !sort.down : false };
      refresh();
    });
    return el("th", { scope: "col", "data-key": key, "aria-sort": "none" }, press);
  });
  const table = el("table", { class: "many" }, el("caption", {}, "Choose a row to see why; a heading sorts."), el("thead", {}, el("tr", {}, ...heads)), el("tbody", { "data-part": "body" }));
  const more = button("Show more rows", () => {
    shown += PAGE;
    draw();
  }, { "data-part": "more" });
  box().replaceChildren(el("div", { "data-part": "sums", class: "sums" }), bar, el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "rows" }, table), more, el("div", { "data-part": "belief", class: "row" }));
  box().dataset.labelled = labelled ? "1" : "";
  delete box().dataset.done;
  box().hidden = false;
  round++;
  const all = button(ALL, () => explainAll(all), { "data-part": "all" });
  part("belief").append(all, button("How far to believe the explanations", believe), el("output", { role: "status" }), el("div", { class: "content" }));
};

const refresh = () => {
  for (const list of box().querySelectorAll("select[data-key]")) list.value = filter[list.dataset.key];
  for (const tick of box().querySelectorAll("input[data-key=wrong]")) tick.checked = filter.wrong;
  shown = PAGE;
  draw();
};

const kept = () => rows.filter((row) =>
  (!filter.text || row.text.toLowerCase().includes(filter.text)) && (!filter.prediction || row.prediction === filter.prediction) &&
  (!filter.label || row.label === filter.label) && (!filter.wrong || row.wrong));

const draw = () => {
  const sign = sort.down ? -1 : 1;
  const value = (row) => row[sort.key] ?? null;
  const list = kept().sort((a, b) => {
    const [x, y] = [value(a), value(b)];
    if (x === null || y === null) return (x === null) - (y === null); // what has no value stands last
    return sign * (typeof x === "number" ? x - y : String(x).localeCompare(String(y))) || a.number - b.number;
  });
  for (const node of box().querySelectorAll("th[data-key]")) node.setAttribute("aria-sort", node.dataset.key !== sort.key ? "none" : sort.down ? "descending" : "ascending");
  put(part("body"), list.slice(0, shown).flatMap((row) => [(row.tr ??= line(row)), ...(row.detail ? [row.detail] : [])]));
  window.pathlensWire(); // an explanation may have come while its row was not shown
  part("more").hidden = list.length <= shown;
  box().querySelector(".count").value = `${list.length} of ${rows.length} rows`;
  sums();
};

// These nodes, in this order, and no others. What stays where it is is not touched: it keeps its focus and what is chosen in it.
const put = (place, nodes) => {
  const wanted = new Set(nodes);
  for (const node of [...place.children]) if (!wanted.has(node)) node.remove();
  let next = place.firstChild;
  for (const node of nodes)
    if (node === next) next = next.nextSibling;
    else place.insertBefore(node, next);
};

const line = (row) => {
  const number = (name, value) => el("td", { class: "number", "data-name": name }, value === undefined || value === null ? "·" : percent(value));
  const labelled = box().dataset.labelled;
  const open = button(row.text || "∅", () => toggle(row), { class: "open", "aria-expanded": "false", dir: "auto" });
  const prediction = row.error ? el("td", { class: "error" }, row.error) : el("td", { "data-name": HEADS.prediction }, row.prediction);
  const tr = el("tr", { class: row.wrong ? "wrong" : null }, el("td", { class: "number" }, String(row.number)), el("td", { class: "words" }, open), labelled ? el("td", { "data-name": HEADS.label }, row.label ?? "·") : null, prediction, number(HEADS.chance, row.chance), labelled ? number(HEADS.true_chance, row.true_chance) : null, number(HEADS.sure, row.sure));
  tr.append(el("td", { class: "leads", dir: "auto" }, row.top || ""));
  if (row.wrong) prediction.append(el("span", { class: "sign", title: "not the true class" }, " ✗"));
  return tr;
};

const toggle = async (row) => {
  if (row.error) return;
  const open = row.tr.querySelector(".open");
  open.setAttribute("aria-expanded", String(!row.detail));
  if (row.detail) {
    row.detail.remove();
    row.detail = null;
    return;
  }
  const inside = el("td", { colspan: String(row.tr.cells.length) }, "explaining …");
  row.tr.after((row.detail = el("tr", { class: "detail" }, inside)));
  try {
    await explain(row);
    inside.innerHTML = row.why;
    const edit = button("Try changes to this text", () => {
      location.hash = `#${new URLSearchParams({ view: "explain", model: model().name, text: row.text })}`;
    });
    inside.append(edit);
    window.pathlensWire();
  } catch (error) {
    tell(inside, error);
  }
};

// a row's explanation, asked for once, and its strongest words
const explain = async (row) => {
  if (row.why) return;
  const done = await new Job("explain", { model: model().name, text: row.text, unit: "word" }).run();
  const result = await (await done.as("json")).json();
  row.why = await (await done.as("fragment")).text();
  const unknown = result.meta.unknown || [];
  const name = (word) => (unknown.some((each) => word.includes(each)) ? `${word} (unknown to the model)` : word);
  const signed = (score) => `${score > 0 ? "+" : ""}${score.toFixed(2)}`;
  const words = result.tokens.map((word, k) => [word, result.scores[k]]).filter(([, score], k) => !result.special[k] && +score.toFixed(2) !== 0);
  words.sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]));
  row.top = words.slice(0, 3).map(([word, score]) => `${name(word)} ${signed(score)}`).join(" · ") || "no word moves it";
  if (row.tr) row.tr.querySelector(".leads").textContent = row.top;
};

let round = 0; // the latest wish to have all rows explained; another one, or another table, ends it

const explainAll = async (press) => {
  const mine = ++round;
  const every = kept().filter((row) => row.prediction !== undefined && !row.why);
  press.disabled = true;
  try {
    for (const [k, row] of every.entries()) {
      if (mine !== round) return;
      press.textContent = `explaining row ${k + 1} of ${every.length} …`;
      await explain(row);
    }
  } catch (error) {
    tell(part("belief").querySelector("output"), error);
  }
  press.disabled = false;
  press.textContent = ALL;
};

// how many are right, and which class is taken for which
const sums = () => {
  const known = rows.filter((row) => row.prediction !== undefined);
  const judged = known.filter((row) => row.label !== null);
  const place = part("sums");
  place.replaceChildren();
  if (leftOut) place.append(el("p", { class: "about" }, missing()));
  if (stopped) place.append(el("p", { class: "about" }, `Stopped: ${asked - rows.length} of ${asked} rows were not predicted, and nothing here counts them.`));
  if (!judged.length) {
    const counts = model().labels.slice(0, 12).map((name) => `${name} ${known.filter((row) => row.prediction === name).length}`);
    place.append(el("p", { class: "about" }, `Predicted: ${counts.join(", ")}.`));
    return;
  }
  const right = judged.filter((row) => !row.wrong).length;
  place.append(el("p", { class: "about" }, `${right} of ${judged.length} are right (${percent(right / judged.length)}).`));
  const labels = model().labels.filter((name) => judged.some((row) => row.label === name || row.prediction === name)).slice(0, 12);
  const table = el("table", { class: "confusion" }, el("caption", {}, "True class ↓ and prediction →: choose a cell to see its rows"));
  table.append(el("tr", {}, el("td"), ...labels.map((name) => el("th", { scope: "col" }, name))));
  const most = Math.max(1, ...labels.flatMap((a) => labels.map((b) => judged.filter((row) => row.label === a && row.prediction === b).length)));
  for (const a of labels) {
    const tr = el("tr", {}, el("th", { scope: "row" }, a));
    for (const b of labels) {
      const count = judged.filter((row) => row.label === a && row.prediction === b).length;
      const press = button(String(count), () => {
        [filter.label, filter.prediction, filter.wrong] = [a, b, false];
        refresh();
      }, { "aria-label": `${count} rows of true class ${a} predicted ${b}` });
      tr.append(el("td", { class: `${a === b ? "right" : "off"} f${Math.ceil((4 * count) / most)}` }, press));
    }
    table.append(tr);
  }
  place.append(table);
};

// the metrics of belief, over the first rows that are shown
const believe = async () => {
  const [status, content] = [part("belief").querySelector("output"), part("belief").querySelector(".content")];
  const texts = kept().filter((row) => row.prediction !== undefined).slice(0, PIECE).map((row) => row.text);
  if (!texts.length) return;
  content.replaceChildren();
  try {
    const study = new Job("evaluate", { model: model().name, texts, methods: oneSided().filter((each) => atLayers().includes(each)) }); // paths through words take long
    await study.run((progress) => (status.textContent = howFar(progress)));
    content.innerHTML = await (await study.as("fragment")).text();
    window.pathlensWire();
    status.textContent = `over ${texts.length} rows`;
  } catch (error) {
    tell(status, error);
  }
};

// ----

export const reveal = (on) => {
  box().hidden = !on || !rows.length;
  if (on && lines.length && chosenFor !== model().name) chooseClasses();
  if (!on || lines.length || at("rows").value) return;
  at("file").value = ""; // a name that stayed is of a file that could not be read
  take(EXAMPLE);
};

// the predictions go, the rows that were given stay
export const clear = () => {
  rows = [];
  round++;
  box().hidden = true;
  box().replaceChildren();
  delete box().dataset.done;
};

const KINDS = /\.(csv|tsv|tab|txt)$/i;
const WANTED = "A table is a CSV or TSV file, or a text file with a text a line.";
// its text, whatever it was saved as
const decoded = async (file) => {
  if (!KINDS.test(file.name) && !file.type.startsWith("text/")) throw new Error(`“${file.name}” is no table. ${WANTED}`);
  const bytes = new Uint8Array(await file.arrayBuffer());
  const mark = bytes[0] === 0xff && bytes[1] === 0xfe ? "utf-16le" : bytes[0] === 0xfe && bytes[1] === 0xff ? "utf-16be" : "";
  const as = (name) => new TextDecoder(name, { fatal: true }).decode(bytes);
  let text;
  try {
    text = as(mark || "utf-8");
  } catch {
    text = as("windows-1252"); // what spreadsheets save where nobody says otherwise
  }
  if (text.includes("\0")) throw new Error(`“${file.name}” holds no text. ${WANTED}`);
  return text;
};

export const wire = (ask, complain, turn) => {
  const open = async (file) => {
    try {
      if (!views().includes("table")) throw new Error("A table needs a model that names classes, and this server has none.");
      turn("table");
      forget();
      at("rows").value = at("rows").placeholder = ""; // what stood there is not this file's
      const text = await decoded(file);
      take(text, /\.txt$/i.test(file.name));
      await ask();
    } catch (error) {
      complain(error);
    }
  };
  at("file").addEventListener("change", () => at("file").files.length && open(at("file").files[0]));
  const over = (on) => document.body.classList.toggle("over", on);
  for (const kind of ["dragover", "drop"])
    document.addEventListener(kind, (event) => {
      if (![...event.dataTransfer.types].includes("Files")) return;
      event.preventDefault(); // the browser would leave the page for the file
      over(kind === "dragover");
      if (kind !== "drop" || !event.dataTransfer.files.length) return;
      at("file").files = event.dataTransfer.files; // its name, where a chosen one's stands
      open(event.dataTransfer.files[0]);
    });
  document.addEventListener("dragleave", (event) => event.relatedTarget || over(false));
  const anew = (node, read) =>
    at(node).addEventListener("change", () => {
      try {
        read();
      } catch (error) {
        complain(error);
      }
    });
  at("rows").addEventListener("input", () => {
    try {
      learn(at("rows").value); // so that nothing moves under a press of the button
    } catch {
      // what is amiss is said when it is written
    }
  });
  anew("rows", () => {
    at("file").value = ""; // its rows were written over
    if (at("rows").value.trim()) take(at("rows").value);
  });
  anew("named", () => {
    guessed = false; // from here on it is the user's word
    if (loaded) load(loaded);
  });
  for (const name of ["text_column", "label_column"]) pick(name).addEventListener("change", remark);
  pick("model").addEventListener("change", () => lines.length && chooseClasses());
};
