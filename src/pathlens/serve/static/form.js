// The form: what can be asked of which model, what was chosen, and both as a link. Texts only ever become textContent.
import { Wrong } from "/static/api.js";

export const form = document.getElementById("ask");
const pick = (name) => form.elements[name];
export const option = (value, text) => {
  const node = document.createElement("option");
  node.value = value;
  node.textContent = text === undefined ? value : text;
  return node;
};

let models = []; // as the server told last
let methods = [];
let choices = {};
export let limits = {}; // the server's

const VIEWS = {
  explain: { go: "Explain", about: "Which words decided what the model says?" },
  pair: { go: "Explain", about: "Which words met? The similarity of two texts as a sum over pairs of their words, and a small rest." },
  table: { go: "Predict", about: "Many texts at once: predictions to sort and filter, and why, row by row." },
  rank: { go: "Search", about: "Your documents by similarity to a query, and which words made it so." },
  answer: { go: "Answer", about: "Which part of which source made the model say this? Choose a sentence of the answer." },
};
const EXAMPLES = {
  explain: {
    any: { text: "Not really funny, but moving." },
    generator: { text: "The capital of France is" },
    "masked language model": { text: "The capital of France is [MASK]." },
    "question answering": { text: "Who plays the guitar?", second: "Anna sings, and Ben plays an old guitar." },
    "multiple choice": { text: "It rains, so he takes", second: "an umbrella." },
  },
  pair: { any: { text: "A man plays a guitar.", text_b: "Someone makes music." } },
  rank: { any: { text: "Someone makes music.", documents: "Boil the rice in water.\nHe plays an old guitar.\nThe river is wide.\nThe choir sang all evening." } },
  answer: {
    generator: {
      question: "What color are the towers of Velmora, and who built them?",
      sources: "The towers of Velmora are painted blue. They were built by Osric in 1402.\n\nThe towers of Tarkis are painted red. Farmers near Tarkis mostly grow rice.\n\nThe old bell of Kalton is made of silver. It rings at dawn.",
    },
  },
  table: { any: {} },
};
const LIST = /\n[ \t]*\n/;
const listed = (text, by) => text.split(by).map((each) => each.trim()).filter(Boolean);
export const inParts = (text) => listed(text, LIST);
const inLines = (text) => listed(text, LIST.test(text.trim()) ? LIST : "\n");

export const view = () => form.dataset.view;
const NONE = { views: [], labels: [], targets: [], baselines: [], methods: {}, scores: [], blocks: [], defaults: {} };
export const model = () => models.find((each) => each.name === pick("model").value) || NONE;
const kind = () => (model().generator ? "generator" : model().kind);
const fits = (name) => models.filter((each) => each.state === "ready" && each.views.includes(name));
export const views = () => Object.keys(VIEWS).filter((name) => fits(name).length);
const offered = (where = view()) => model().methods[where] || []; // names of methods, the default first
const first = () => offered()[0];
const method = () => methods.find((each) => each.name === (pick("method").value || first())) || { options: [] };
// what is read from the output where nothing is chosen: some generators have a score of their own for one token's integral
const usualScore = () => {
  const { other_score, defaults: { score } } = model();
  const several = Number(pick("generate").value) > 1 || pick("contrast").value !== "";
  if (score === other_score || !method().integral || several) return other_score;
  return pick("words").value === "" ? score : `${score} of one token, ${other_score} of more`;
};
const ofBlock = () => method().options.includes("block") && pick("block").value !== "" && view() === "explain";
const scored = () => !method().vector && !ofBlock(); // a vector, or a part of the model, has neither class nor score

// what a field needs to be of use: `data-when` names one of these, `data-for` the views
const WHEN = {
  unit: () => method().result !== "PhraseTree" && !ofBlock(), // phrases come at every size, parts of a model by token
  targets: () => (model().targets || []).length > 0 && scored(),
  words: () => model().targets === null && scored(),
  score: () => model().scores.length > 1 && scored(),
  layer: () => model().layers > 0 && method().layer && !ofBlock(),
  tolerance: () => method().integral,
  tree: () => method().options.includes("tree"),
  block: () => method().options.includes("block") && model().blocks.length > 0,
  generator: () => model().generator && scored(),
  contrast: () => model().generator && scored(),
  chat: () => model().chat,
  second: () => Boolean(model().second),
};
const shown = (node) => (!node.dataset.for || node.dataset.for.split(" ").includes(view())) && (!node.dataset.when || Boolean(WHEN[node.dataset.when]()));
const fields = () => [...form.elements].filter((field) => field.name && [...ancestors(field)].every(shown));
function* ancestors(field) {
  for (let node = field.closest("[data-for],[data-when]"); node; node = node.parentElement.closest("[data-for],[data-when]")) yield node;
}
const WORDS = { generator: "What it says", "masked language model": "Word in the gap", "token classification": "Token, by its number", "zero-shot classification": "Label" };
const TEXTS = { generator: "Prompt", "question answering": "Question", "multiple choice": "Question" };
const name = (which, text) => (form.querySelector(`[data-name=${which}]`).textContent = text);

const settle = () => {
  for (const node of form.querySelectorAll("[data-for],[data-when]")) node.hidden = !shown(node);
  name("text", view() === "rank" ? "Query" : view() === "pair" ? "First text" : TEXTS[kind()] || "Text");
  name("words", WORDS[kind()] || "Target");
  name("second", model().second === "must" ? model().second_name : "Second text, if the model reads two");
  const second = pick("second").closest("label");
  if (model().second === "must") pick("text").closest("label").after(second);
  else form.querySelector(".options").append(second);
  document.getElementById("go").textContent = VIEWS[view()].go;
  document.getElementById("about").textContent = VIEWS[view()].about;
  const { defaults } = model();
  pick("baseline").placeholder = defaults.baseline || "";
  pick("layer").placeholder = (method().integral && defaults.layer) || 0;
  pick("layer").max = model().layers || "";
  for (const usual of pick("score").querySelectorAll('[value=""]')) usual.textContent = asDefault(usualScore()).textContent;
  pick("words").placeholder = model().generator ? "what it says next" : kind() === "token classification" ? "the surest" : "the likeliest";
  pick("generate").placeholder = view() === "answer" ? choices.written : 1;
};

// a list of choices; the one before stays where it is still offered
const offer = (field, options, other = "") => {
  const before = pick(field).value;
  pick(field).replaceChildren(...options);
  pick(field).value = options.some((each) => each.value === before) ? before : other;
};
const asDefault = (name) => option("", `${name} (the default)`);

const offerChoices = () => {
  const { targets, scores, blocks, baselines } = model();
  const named = methods.filter((each) => offered().includes(each.name));
  offer("method", [asDefault(first()), ...named.map((each) => option(each.name, `${each.name}: ${each.title}`))]);
  const units = [...choices.units, ...(view() === "explain" && model().chat ? choices.prompt_units : [])];
  offer("unit", units.map((each) => option(each)), "word");
  offer("target", [kind() === "question answering" ? asDefault("span") : option("", "the predicted class"), ...(targets || []).map((each) => option(each))]);
  offer("score", [asDefault(usualScore()), ...scores.map((each) => option(each))]);
  offer("block", [option("", "the whole model"), ...blocks.map((each) => option(each))]);
  document.getElementById("baselines").replaceChildren(...baselines.map((each) => option(each)));
};

const offerModels = () => {
  const named = fits(view());
  const before = pick("model").value;
  pick("model").replaceChildren(...named.map((each) => option(each.name, `${each.name} (${each.kind})`)));
  if (named.some((each) => each.name === before)) pick("model").value = before;
};

export const setView = (name) => {
  form.dataset.view = name;
  for (const tab of document.querySelectorAll("[role=tab]")) {
    const on = tab.dataset.view === name;
    tab.setAttribute("aria-selected", String(on));
    tab.tabIndex = on ? 0 : -1;
    tab.hidden = !views().includes(tab.dataset.view);
    if (on) document.getElementById("work").setAttribute("aria-labelledby", tab.id);
  }
  offerModels();
  offerChoices();
  settle();
};

// an example in fields that nobody has written in
export const putExample = () => {
  const example = EXAMPLES[view()][kind()] || EXAMPLES[view()].any || {};
  const known = Object.values(EXAMPLES).flatMap(Object.values);
  for (const [name, text] of Object.entries(example)) {
    const value = pick(name).value;
    if (!value.trim() || known.some((each) => each[name] === value)) pick(name).value = text.replace("[MASK]", model().mask || "[MASK]");
  }
  return Object.keys(example).length > 0;
};

export const fill = (facts, known) => {
  models = facts.models;
  choices = facts.choices;
  limits = facts.limits;
  if (known) {
    methods = known;
    pick("cut").append(...choices.parts.map((name) => option(name)));
    pick("cut").value = choices.part;
    pick("template").append(...choices.templates.map((name) => option(name)));
    pick("model").addEventListener("change", () => {
      setView(view());
      putExample(); // another kind of model has another example, where nobody has written
    });
    for (const field of ["method", "block"]) pick(field).addEventListener("change", settle);
    for (const field of ["words", "contrast", "generate"]) pick(field).addEventListener("input", settle); // the usual score hangs on them
  }
  if (view()) setView(view());
};
const known = (test, where = "explain") => methods.filter((each) => offered(where).includes(each.name) && test(each)).map((each) => each.name);
export const oneSided = () => known((each) => each.result === "Explanation");
export const atLayers = () => known((each) => each.layer);
export const alongNodes = () => known((each) => each.nodes);
export const baselines = () => model().baselines;
export const usualBaseline = () => pick("baseline").placeholder;
// which methods give something that can stand beside a result of this kind; of a generator those that need few passes first
export const besides = (kind, body) => {
  const slow = (name) => model().generator && methods.find((each) => each.name === name).integral;
  return ofKind(kind, body).sort((a, b) => slow(a) - slow(b));
};
const ofKind = (kind, body) => {
  if (kind === "Answer") return [...offered("answer")];
  if (kind === "PairExplanation") return known((each) => each.compares, "pair");
  if (kind === "VectorExplanation") return known((each) => (body.block ? each.options.includes("block") : each.vector));
  if (view() !== "explain") return known((each) => each.result === "Explanation" && !each.compares, "pair");
  if (kind === "Continuation") return known((each) => each.by_output);
  return known((each) => each.result === "Explanation" || each.result === kind);
};
// which method gives the numbers by unit that a masked unit can be held against; a pair's cells are of two units, so there it is
// one that scores the words of the first text beside the second
export const scoredBy = (kind, name) => {
  if (kind === "PairExplanation") return known((each) => each.result === "Explanation" && !each.compares, "pair")[0];
  if (!["Explanation", "Interactions", "PhraseTree"].includes(kind)) return undefined;
  return methods.find((each) => each.name === name).scored_by;
};
// only models that answer the same question can stand side by side: of the same kind, with the same classes
const question = (each) => JSON.stringify([each.kind, each.labels]);
export const others = () => fits(view()).filter((each) => each !== model() && question(each) === question(model())).map((each) => each.name);

// what is amiss with a number, in the page's words
const amiss = (field) => {
  const { valid, badInput, rangeUnderflow, rangeOverflow } = field.validity;
  if (valid) return "";
  if (badInput) return "This must be a number.";
  if (rangeUnderflow) return `This must be ${field.min} or more.`;
  return rangeOverflow ? `This must be ${field.max} or less.` : "This must be a whole number.";
};

// the body of a request: the names of the library, only what was chosen
export const body = () => {
  const asked = {};
  const unfit = fields().find(amiss);
  if (unfit) throw new Wrong(amiss(unfit), { field: unfit.name });
  for (const field of fields()) {
    const value = field.value.trim();
    if (!value || field.name.endsWith("_column")) continue;
    const number = field.type === "number" || (field.name === "words" && kind() === "token classification" && /^\d+$/.test(value));
    // blanks at the ends of a text are part of it, and so they are of what a generator says
    const whole = ["text", "text_b", "words", "contrast"].includes(field.name);
    asked[field.name] = number ? Number(value) : whole ? field.value : value;
  }
  const rename = (old, name, change = (value) => value) => {
    if (old in asked) {
      const value = change(asked[old]);
      delete asked[old];
      asked[name] = value;
    }
  };
  rename("words", "target");
  if (pick("target").value && model().labels.includes(asked.target)) asked.target = model().labels.indexOf(asked.target); // a class may be called 7
  rename("second", "text_b");
  rename("passages", "passages", inParts);
  rename("sources", "sources", inParts);
  rename("cut", "unit");
  if (view() === "rank") {
    rename("text", "query");
    rename("documents", "documents", inLines);
    asked.method = asked.method || first();
    asked.top = Math.max(1, (asked.documents || []).length);
  }
  const needed = ["text", "text_b", "documents", "question", "sources", ...(model().second === "must" ? ["second"] : []), ...(kind() === "zero-shot classification" ? ["words"] : [])];
  const empty = fields().find((field) => needed.includes(field.name) && !field.value.trim());
  if (empty) throw new Wrong("There is nothing here. Write something first.", { field: empty.name });
  return asked;
};

// ---- which field something went wrong in: marked, in sight, and named as it is on the page

const ALSO = { target: ["words"], text: ["question"], text_b: ["second"], query: ["text"], unit: ["cut"] }; // the library's names, and ours
const fieldOf = (named) => [named, ...(ALSO[named] || [])].map((each) => form.elements[each]).find((field) => field && fields().includes(field));
export const point = (named) => {
  for (const field of form.querySelectorAll("[aria-invalid]")) field.removeAttribute("aria-invalid");
  const field = named && fieldOf(named);
  if (!field) return "";
  field.setAttribute("aria-invalid", "true");
  if (field.closest("details")) field.closest("details").open = true;
  field.focus({ preventScroll: true });
  const label = field.closest("label");
  return (label.querySelector("span") || label.firstChild).textContent.trim();
};

// `more`: what is asked besides the form, or instead of it: an edited text, a class that was chosen above the result, why
export const toLink = (more = {}) => {
  const link = new URLSearchParams({ view: view() });
  for (const { name, value } of fields()) if (value && !(name === "unit" && value === "word") && !(name === "cut" && value === choices.part)) link.set(name, value);
  for (const [name, value] of Object.entries(more)) {
    if (name === "target") linkTarget(link, value);
    else if (value === undefined) link.delete(name);
    else link.set(name, value);
  }
  return `#${link}`;
};

// in the field that has it; as it is where none does: the tag of a token, a word by its number, a class that is not listed
const linkTarget = (link, value) => {
  const field = WHEN.targets() ? "target" : "words";
  const label = field === "target" && typeof value === "number" ? model().labels[value] : value;
  link.delete(field);
  if (typeof label === "string") link.set(field, label);
  else if (value !== undefined) link.set("asked", JSON.stringify(value));
};

// what a link asks besides the form, which has no field for it: why one of two hits is above the other, or a target
export const besideForm = (hash) => {
  const link = new URLSearchParams(hash.slice(1));
  const places = (link.get("why") || "").split(",").filter(Boolean).map(Number);
  if (view() === "rank") return places.length === 2 ? { why: places } : {};
  if (view() !== "explain" || !link.has("asked")) return {};
  try {
    return { target: JSON.parse(link.get("asked")) };
  } catch {
    return {}; // not a link of ours
  }
};

// true when the link says what to do at once
export const fromLink = (hash) => {
  const link = new URLSearchParams(hash.slice(1));
  const wanted = views().includes(link.get("view")) ? link.get("view") : views()[0];
  setView(wanted);
  if (link.has("model")) {
    pick("model").value = link.get("model");
    if (!pick("model").value) setView(wanted);
    else setView(view());
  }
  const whole = ["text", "question"].some((name) => link.has(name)); // it says everything: what it leaves out is as by default
  const usual = { unit: "word", cut: choices.part };
  for (const field of form.elements)
    if (field.name && field.name !== "model" && (whole || link.has(field.name))) field.value = link.get(field.name) ?? usual[field.name] ?? "";
  offerChoices(); // a link may name what this model has not
  settle();
  return whole;
};
