// The form: what can be asked of which model, what was chosen, and both as a link. Texts only ever become textContent.
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
  explain: { go: "Explain", needs: (m) => !m.pair, about: "Which words decided? Click a word in the result to mask, delete or replace it." },
  pair: { go: "Explain", needs: (m) => m.pair, methods: ["ij", "secant", "ig", "sig"], about: "Which words met? The similarity of two texts as a sum over pairs of their words, and a small rest." },
  table: { go: "Predict", needs: (m) => m.labels.length > 1 && !m.generator, about: "Many texts at once: predictions to sort and filter, and why, row by row." },
  rank: { go: "Search", needs: (m) => m.pair, methods: ["secant", "ij"], about: "Your documents by similarity to a query, and which words made it so." },
  answer: { go: "Answer", needs: (m) => m.answers, methods: ["secant", "sig", "ig"], about: "Which part of which source made the model say this? Choose a sentence of the answer." },
};
const EXAMPLES = {
  explain: { reader: { text: "Not really funny, but moving." }, generator: { text: "The capital of France is" } },
  pair: { reader: { text: "A man plays a guitar.", text_b: "Someone makes music." } },
  rank: { reader: { text: "Someone makes music.", documents: "Boil the rice in water.\nHe plays an old guitar.\nThe river is wide.\nThe choir sang all evening." } },
  answer: {
    generator: {
      question: "What color are the towers of Velmora, and who built them?",
      sources: "The towers of Velmora are painted blue. They were built by Osric in 1402.\n\nThe towers of Tarkis are painted red. Farmers near Tarkis mostly grow rice.\n\nThe old bell of Kalton is made of silver. It rings at dawn.",
    },
  },
  table: { reader: {} },
};
const LIST = /\n[ \t]*\n/;
const listed = (text, by) => text.split(by).map((each) => each.trim()).filter(Boolean);
export const inParts = (text) => listed(text, LIST);
const inLines = (text) => listed(text, LIST.test(text.trim()) ? LIST : "\n");

export const view = () => form.dataset.view;
export const model = () => models.find((each) => each.name === pick("model").value) || { labels: [], defaults: {} };
const kind = () => (model().generator ? "generator" : "reader");
const fits = (name) => models.filter((each) => each.state === "ready" && VIEWS[name].needs(each));
export const views = () => Object.keys(VIEWS).filter((name) => fits(name).length);
const takes = (name) => methods.some((each) => each.name === (pick("method").value || model().defaults.method) && each.options.includes(name));

// some fields are one view's, some one kind of model's, some options that not every method takes
const shown = (node) => {
  const kinds = node.dataset.kinds;
  const right = !kinds || kinds === kind() || (kinds === "classifier" && model().labels.length > 0 && !model().generator);
  return (!node.dataset.for || node.dataset.for.split(" ").includes(view())) && right && (!node.dataset.option || takes(node.dataset.option)) && node.dataset.not !== pick("method").value;
};
const fields = () => [...form.elements].filter((field) => field.name && [...ancestors(field)].every(shown));
function* ancestors(field) {
  for (let node = field.closest("[data-for],[data-kinds]"); node; node = node.parentElement.closest("[data-for],[data-kinds]")) yield node;
}

const settle = () => {
  for (const node of form.querySelectorAll("[data-for],[data-kinds]")) node.hidden = !shown(node);
  form.querySelector("[data-name=text]").textContent = view() === "rank" ? "Query" : view() === "pair" ? "First text" : model().generator ? "Prompt" : "Text";
  document.getElementById("go").textContent = VIEWS[view()].go;
  document.getElementById("about").textContent = VIEWS[view()].about;
  const { defaults, labels } = model();
  pick("baseline").placeholder = defaults.baseline || "";
  pick("layer").placeholder = defaults.layer || 0;
  pick("layer").max = model().layers || "";
  pick("target").placeholder = "the predicted class";
  pick("generate").placeholder = view() === "answer" ? "60" : "1";
  document.getElementById("labels").replaceChildren(...labels.map((name) => option(name)));
};

const offerMethods = () => {
  const own = VIEWS[view()].methods;
  const offered = methods.filter((each) => (own ? own.includes(each.name) : each.texts === 1));
  const first = view() === "rank" || view() === "answer" ? own[0] : model().defaults.method;
  const before = pick("method").value;
  pick("method").replaceChildren(option("", `${first} (the default)`), ...offered.map((each) => option(each.name, `${each.name}: ${each.title}`)));
  pick("method").value = offered.some((each) => each.name === before) ? before : "";
  const units = [...choices.units, ...(view() === "explain" && model().generator ? choices.prompt_units : [])];
  const unit = pick("unit").value || "word";
  pick("unit").replaceChildren(...units.map((name) => option(name)));
  pick("unit").value = units.includes(unit) ? unit : "word";
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
  offerMethods();
  settle();
};

// an example in fields that nobody has written in
export const putExample = () => {
  const example = (EXAMPLES[view()] || {})[kind()] || {};
  const known = Object.values(EXAMPLES).flatMap(Object.values);
  for (const [name, text] of Object.entries(example)) {
    const value = pick(name).value;
    if (!value.trim() || known.some((each) => each[name] === value)) pick(name).value = text;
  }
  return Object.keys(example).length > 0;
};

export const fill = (told, known) => {
  models = told.models;
  choices = told.choices;
  if (known) {
    methods = known;
    pick("template").append(...choices.templates.map((name) => option(name)));
    document.getElementById("baselines").replaceChildren(...choices.baselines.map((name) => option(name)));
    pick("model").addEventListener("change", () => setView(view()));
    pick("method").addEventListener("change", settle);
  }
  if (view()) setView(view());
};
export const oneSided = () => methods.filter((each) => each.texts === 1 && !each.vector && !["ih", "idg"].includes(each.name)).map((each) => each.name);
export const baselines = () => choices.baselines.filter((name) => name !== "quiet");
export const others = () => fits(view()).map((each) => each.name).filter((name) => name !== model().name);

// the body of a request: the names of the library, only what was chosen
export const body = () => {
  const asked = {};
  for (const field of fields()) {
    const value = field.value.trim();
    if (!value || field.name.endsWith("_column")) continue;
    const number = field.type === "number" || (field.name === "target" && /^\d+$/.test(value));
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
  const empty = fields().filter((field) => field.matches("textarea") && ["text", "text_b", "documents", "question", "sources"].includes(field.name) && !field.value.trim());
  if (empty.length) {
    empty[0].focus();
    throw new Error(`“${empty[0].closest("label").querySelector("span").textContent}” is empty: write something there first.`);
  }
  return asked;
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
  for (const field of form.elements) if (field.name && field.name !== "model" && link.has(field.name)) field.value = link.get(field.name);
  settle();
  return ["text", "question"].some((name) => link.has(name));
};
