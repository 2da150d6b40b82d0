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

const VIEWS = {
  explain: { go: "Explain", about: "Which words decided? Click a word in the result to mask, delete or replace it." },
  pair: { go: "Explain", methods: ["ij", "secant", "ig", "sig"], about: "Which words met? The similarity of two texts as a sum over pairs of their words, and a small rest." },
  table: { go: "Predict", about: "Many texts at once: predictions to sort and filter, and why, row by row." },
  rank: { go: "Search", methods: ["secant", "ij"], about: "Your documents by similarity to a query, and which words made it so." },
  answer: { go: "Answer", methods: ["secant", "sig", "ig"], about: "Which part of which source made the model say this? Choose a sentence of the answer." },
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
const NONE = { views: [], labels: [], targets: [], baselines: [], methods: [], scores: [], blocks: [], defaults: {} };
export const model = () => models.find((each) => each.name === pick("model").value) || NONE;
const kind = () => (model().generator ? "generator" : model().kind);
const fits = (name) => models.filter((each) => each.state === "ready" && each.views.includes(name));
export const views = () => Object.keys(VIEWS).filter((name) => fits(name).length);
const own = () => VIEWS[view()].methods || model().methods; // names of the methods of this view
const first = () => (view() === "rank" || view() === "answer" ? own()[0] : model().defaults.method);
const method = () => methods.find((each) => each.name === (pick("method").value || first())) || { options: [] };
const ofBlock = () => method().options.includes("block") && pick("block").value !== "" && view() === "explain";

// what a field needs to be of use: `data-when` names one of these, `data-for` the views
const WHEN = {
  unit: () => method().name !== "idg" && !ofBlock(), // phrases come at every size, parts of a model by token
  targets: () => (model().targets || []).length > 0 && !method().vector,
  said: () => model().targets === null && !method().vector,
  score: () => model().scores.length > 1 && !method().vector,
  layer: () => model().layers > 0 && method().layer && !ofBlock(),
  tolerance: () => method().integral,
  tree: () => method().options.includes("tree"),
  block: () => method().options.includes("block") && model().blocks.length > 0,
  generator: () => model().generator && !method().vector,
  contrast: () => model().generator && !method().vector,
  chat: () => model().chat,
  second: () => Boolean(model().second),
};
const shown = (node) => (!node.dataset.for || node.dataset.for.split(" ").includes(view())) && (!node.dataset.when || Boolean(WHEN[node.dataset.when]()));
const fields = () => [...form.elements].filter((field) => field.name && [...ancestors(field)].every(shown));
function* ancestors(field) {
  for (let node = field.closest("[data-for],[data-when]"); node; node = node.parentElement.closest("[data-for],[data-when]")) yield node;
}
const SAID = { generator: "What it says", "masked language model": "Word in the gap", "token classification": "Token, by its number", "zero-shot classification": "Label" };
const TEXTS = { generator: "Prompt", "question answering": "Question", "multiple choice": "Question" };
const name = (which, text) => (form.querySelector(`[data-name=${which}]`).textContent = text);

const settle = () => {
  for (const node of form.querySelectorAll("[data-for],[data-when]")) node.hidden = !shown(node);
  name("text", view() === "rank" ? "Query" : view() === "pair" ? "First text" : TEXTS[kind()] || "Text");
  name("said", SAID[kind()] || "Target");
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
  pick("said").placeholder = model().generator ? "what it says next" : kind() === "token classification" ? "the surest" : "the likeliest";
  pick("generate").placeholder = view() === "answer" ? "60" : "1";
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
  const offered = methods.filter((each) => own().includes(each.name));
  offer("method", [asDefault(first()), ...offered.map((each) => option(each.name, `${each.name}: ${each.title}`))]);
  const units = [...choices.units, ...(view() === "explain" && model().chat ? choices.prompt_units : [])];
  offer("unit", units.map((each) => option(each)), "word");
  offer("target", [kind() === "question answering" ? asDefault("span") : option("", "the predicted class"), ...(targets || []).map((each) => option(each))]);
  offer("score", [asDefault(scores[0]), ...scores.slice(1).map((each) => option(each))]);
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

export const fill = (told, known) => {
  models = told.models;
  choices = told.choices;
  if (known) {
    methods = known;
    pick("template").append(...choices.templates.map((name) => option(name)));
    pick("model").addEventListener("change", () => {
      setView(view());
      putExample(); // another kind of model has another example, where nobody has written
    });
    for (const field of ["method", "block"]) pick(field).addEventListener("change", settle);
  }
  if (view()) setView(view());
};
const known = (test) => methods.filter((each) => model().methods.includes(each.name) && test(each)).map((each) => each.name);
export const oneSided = () => known((each) => !each.vector && !["ih", "idg"].includes(each.name));
export const alongNodes = () => known((each) => ["ig", "dig", "udig"].includes(each.name));
export const baselines = () => model().baselines;
// only models that answer the same question can stand side by side: of the same kind, with the same classes
const question = (each) => JSON.stringify([each.kind, each.labels]);
export const others = () => fits(view()).filter((each) => each !== model() && question(each) === question(model())).map((each) => each.name);

// the body of a request: the names of the library, only what was chosen
export const body = () => {
  const asked = {};
  for (const field of fields()) {
    const value = field.value.trim();
    if (!value || field.name.endsWith("_column")) continue;
    const number = field.type === "number" || (field.name === "said" && kind() === "token classification" && /^\d+$/.test(value));
    // blanks at the ends of a text are part of it, and so they are of what a generator says
    const whole = ["text", "text_b", "said", "contrast"].includes(field.name);
    asked[field.name] = number ? Number(value) : whole ? field.value : value;
  }
  const rename = (old, name, change = (value) => value) => {
    if (old in asked) {
      const value = change(asked[old]);
      delete asked[old];
      asked[name] = value;
    }
  };
  rename("said", "target");
  if (pick("target").value && model().labels.includes(asked.target)) asked.target = model().labels.indexOf(asked.target); // a class may be called 7
  rename("second", "text_b");
  rename("passages", "passages", inParts);
  rename("sources", "sources", inParts);
  rename("cut", "unit");
  if (view() === "rank") {
    rename("text", "query");
    rename("documents", "documents", inLines);
    asked.method = asked.method || "secant";
    asked.top = Math.max(1, (asked.documents || []).length);
  }
  const needed = ["text", "text_b", "documents", "question", "sources", ...(model().second === "must" ? ["second"] : []), ...(kind() === "zero-shot classification" ? ["said"] : [])];
  const empty = fields().find((field) => needed.includes(field.name) && !field.value.trim());
  if (empty) throw new Wrong("There is nothing here. Write something first.", { field: empty.name });
  return asked;
};

// ---- which field something went wrong in: marked, in sight, and named as it is on the page

const ALSO = { target: ["said"], text: ["question"], text_b: ["second"], query: ["text"], unit: ["cut"] }; // the library's names, and ours
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

export const toLink = (more = {}) => {
  const link = new URLSearchParams({ view: view() });
  for (const { name, value } of fields()) if (value && !(name === "unit" && value === "word") && !(name === "cut" && value === "sentence")) link.set(name, value);
  for (const [name, value] of Object.entries(more)) link.set(name, value);
  return `#${link}`;
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
  const usual = { unit: "word", cut: "sentence" };
  for (const field of form.elements)
    if (field.name && field.name !== "model" && (whole || link.has(field.name))) field.value = link.get(field.name) ?? usual[field.name] ?? "";
  offerChoices(); // a link may name what this model has not
  settle();
  return whole;
};
