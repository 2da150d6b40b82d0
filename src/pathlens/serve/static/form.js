"use strict";
// The form: what can be chosen, what was chosen, and both as a link. Texts only ever become textContent.
const form = document.getElementById("ask");
const pick = (name) => form.elements[name];
let models = []; // as the server told last
const generates = () => Boolean((models.find((each) => each.name === pick("model").value) || {}).generator);
// some fields are one kind of model's, some one method's own
const fits = (node) =>
  (!node.dataset.kinds || (node.dataset.kinds === "generator") === generates()) && (!node.dataset.method || node.dataset.method === pick("method").value);
const shown = (node) => (node.dataset.for || form.dataset.view).split(" ").includes(form.dataset.view) && fits(node);
const NAMES = { explain: "Explain", compare: "Compare", whatif: "Mask every unit", path: "Walk the path", layers: "Explain every layer", nodes: "Try every rule", rank: "Rank" };

const option = (value, text) => {
  const node = document.createElement("option");
  node.value = value;
  node.textContent = text === undefined ? value : text;
  return node;
};

const check = (box, name, value, on) => {
  const label = document.createElement("label");
  const input = document.createElement("input");
  input.type = "checkbox";
  input.name = name;
  input.value = value;
  input.checked = on;
  label.append(input, ` ${value}`);
  box.append(label);
};

const setView = (view) => {
  form.dataset.view = view;
  for (const tab of form.querySelectorAll("[role=tab]")) {
    const on = tab.dataset.view === view;
    tab.setAttribute("aria-selected", String(on));
    tab.tabIndex = on ? 0 : -1;
  }
  for (const node of form.querySelectorAll("[data-for],[data-kinds]")) node.hidden = !shown(node);
  form.querySelector("[data-name=text]").textContent = view === "rank" ? "Query" : generates() ? "Prompt" : "Text";
  document.getElementById("go").textContent = NAMES[view];
};

const offerLabels = () => {
  for (const box of form.querySelectorAll("input[name=models]")) box.disabled = box.value === pick("model").value;
  const model = models.find((each) => each.name === pick("model").value);
  document.getElementById("labels").replaceChildren(...(model ? model.labels : []).map((name) => option(name)));
  if (form.dataset.view) setView(form.dataset.view); // a generator has other fields
};

// may be called again while models load: what was chosen stays chosen
const fillModels = (facts) => {
  models = facts.models;
  const chosen = pick("model").value;
  const named = (model) => `${model.name} (${model.state === "ready" ? model.kind : model.state})`;
  pick("model").replaceChildren(...models.map((model) => option(model.name, named(model))));
  if (chosen) pick("model").value = chosen;
  offerLabels();
};

const fillForm = (methods) => {
  pick("method").replaceChildren(option("", "default"), ...methods.map((method) => option(method.name, `${method.name}: ${method.title}`)));
  const boxes = [["methods", methods.filter((m) => m.texts === 1 && !m.vector).map((m) => m.name), ["ig", "sig"]], ["bases", ["mask", "pad", "zero", "mean", "unk"], []]];
  for (const [id, values, on] of boxes) for (const value of values) check(document.getElementById(id), id, value, on.includes(value));
  for (const model of models) check(document.getElementById("models"), "models", model.name, false);
  form.querySelector(".others").classList.toggle("one", models.length < 2);
  pick("model").addEventListener("change", offerLabels);
  pick("method").addEventListener("change", offerLabels);
  offerLabels();
};

const NUMBERS = ["layer", "tolerance", "generate"];
const OF_GENERATORS = ["generate", "contrast", "system", "passages", "template"];

const ticked = (name) => [...form.querySelectorAll(`input[name=${name}]:checked`)].map((box) => box.value);

// the body of a request: the names of pl.explain, only what was chosen
const body = () => {
  const view = form.dataset.view;
  const found = {};
  for (const name of ["model", "method", "target", "baseline", "unit", "layer", "tolerance", "tree", "block", "text", "text_b", ...OF_GENERATORS]) {
    const field = pick(name);
    const value = field.value.trim();
    const part = field.closest("[data-for],[data-kinds]");
    if (!value || (part && !shown(part))) continue;
    const number = NUMBERS.includes(name) || (name === "target" && !generates() && /^\d+$/.test(value));
    // blanks at the ends of a text are part of it, and so they are of what a generator says
    const whole = name.startsWith("text") || (generates() && ["target", "contrast"].includes(name));
    found[name] = number ? Number(value) : whole ? field.value : value;
  }
  if (found.passages) found.passages = found.passages.split(/\n\s*\n/).map((text) => text.trim()).filter(Boolean);
  if (view === "rank") {
    found.query = found.text;
    delete found.text;
    const places = pick("why").value.split(",").map((place) => Number(place) - 1);
    if (places.length === 2) {
      found.why = places;
      found.top = Math.max(3, ...places.map((place) => place + 1));
    }
    found.documents = pick("documents").value.split("\n").map((line) => line.trim()).filter(Boolean);
  }
  if (view === "compare") {
    for (const [name, id] of [["methods", "methods"], ["baselines", "bases"]]) if (ticked(id).length) found[name] = ticked(id);
    const others = ticked("models").filter((name) => name !== found.model);
    if (others.length) found.models = others;
  }
  return found;
};

const FIELDS = ["model", "method", "target", "baseline", "unit", "layer", "tolerance", "tree", "block", "text", "text_b", "documents", "why", ...OF_GENERATORS];

const toLink = () => {
  const said = new URLSearchParams({ view: form.dataset.view });
  for (const name of FIELDS) if (pick(name).value && !(name === "unit" && pick(name).value === "token")) said.set(name, pick(name).value);
  if (form.dataset.view === "compare") for (const id of ["methods", "bases", "models"]) said.set(id, ticked(id).join(","));
  return `#${said}`;
};

// true when the link says what to do at once
const fromLink = (hash) => {
  const said = new URLSearchParams(hash.slice(1));
  for (const name of FIELDS) if (said.has(name)) pick(name).value = said.get(name);
  for (const id of ["methods", "bases", "models"])
    if (said.has(id)) for (const box of form.querySelectorAll(`input[name=${id}]`)) box.checked = said.get(id).split(",").includes(box.value);
  setView(said.get("view") in NAMES ? said.get("view") : "explain");
  return said.has("text");
};
