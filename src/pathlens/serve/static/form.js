"use strict";
// The form: what can be chosen, what was chosen, and both as a link. Texts only ever become textContent.
const form = document.getElementById("ask");
const pick = (name) => form.elements[name];
const fields = () => [...form.elements].filter((field) => field.name && field.type !== "checkbox");
let models = []; // as the server told last
let methods = [];
const generates = () => Boolean((models.find((each) => each.name === pick("model").value) || {}).generator);
const takes = (name) => methods.some((each) => each.name === pick("method").value && each.options.includes(name));
// some fields are one kind of model's, some are options that not every method takes
const fits = (node) =>
  (!node.dataset.kinds || (node.dataset.kinds === "generator") === generates()) && (!node.dataset.option || takes(node.dataset.option));
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

const fillForm = (known, choices) => {
  methods = known;
  const ofPrompts = choices.prompt_units.map((name) => option(name));
  for (const node of ofPrompts) node.dataset.kinds = "generator";
  pick("unit").replaceChildren(...choices.units.map((name) => option(name)), ...ofPrompts);
  pick("template").append(...choices.templates.map((name) => option(name)));
  document.getElementById("baselines").replaceChildren(...choices.baselines.map((name) => option(name)));
  pick("method").replaceChildren(option("", "default"), ...methods.map((method) => option(method.name, `${method.name}: ${method.title}`)));
  const boxes = [["methods", methods.filter((m) => m.texts === 1 && !m.vector).map((m) => m.name), ["ig", "sig"]], ["bases", choices.baselines, []]];
  for (const [id, values, on] of boxes) for (const value of values) check(document.getElementById(id), id, value, on.includes(value));
  for (const model of models) check(document.getElementById("models"), "models", model.name, false);
  form.querySelector(".others").classList.toggle("one", models.length < 2);
  pick("model").addEventListener("change", offerLabels);
  pick("method").addEventListener("change", offerLabels);
  offerLabels();
};

const ticked = (name) => [...form.querySelectorAll(`input[name=${name}]:checked`)].map((box) => box.value);

// the body of a request: the names of pl.explain, only what was chosen
const body = () => {
  const view = form.dataset.view;
  const asked = {};
  for (const field of fields()) {
    const name = field.name;
    const value = field.value.trim();
    const part = field.closest("[data-for],[data-kinds]");
    if (!value || (part && !shown(part))) continue;
    const number = field.type === "number" || (name === "target" && !generates() && /^\d+$/.test(value));
    // blanks at the ends of a text are part of it, and so they are of what a generator says
    const whole = name.startsWith("text") || (generates() && ["target", "contrast"].includes(name));
    asked[name] = number ? Number(value) : whole ? field.value : value;
  }
  if (asked.passages) asked.passages = asked.passages.split(/\n\s*\n/).map((text) => text.trim()).filter(Boolean);
  if (view === "rank") {
    asked.query = asked.text;
    delete asked.text;
    delete asked.why;
    const places = pick("why").value.split(",").map((place) => Number(place) - 1);
    if (places.length === 2) {
      asked.why = places;
      asked.top = Math.max(3, ...places.map((place) => place + 1));
    }
    asked.documents = pick("documents").value.split("\n").map((line) => line.trim()).filter(Boolean);
  }
  if (view === "compare") {
    for (const [name, id] of [["methods", "methods"], ["baselines", "bases"]]) if (ticked(id).length) asked[name] = ticked(id);
    const others = ticked("models").filter((name) => name !== asked.model);
    if (others.length) asked.models = others;
  }
  return asked;
};

const toLink = () => {
  const link = new URLSearchParams({ view: form.dataset.view });
  for (const { name, value } of fields()) if (value && !(name === "unit" && value === "token")) link.set(name, value);
  if (form.dataset.view === "compare") for (const id of ["methods", "bases", "models"]) link.set(id, ticked(id).join(","));
  return `#${link}`;
};

// true when the link says what to do at once
const fromLink = (hash) => {
  const link = new URLSearchParams(hash.slice(1));
  for (const field of fields()) if (link.has(field.name)) field.value = link.get(field.name);
  for (const id of ["methods", "bases", "models"])
    if (link.has(id)) for (const box of form.querySelectorAll(`input[name=${id}]`)) box.checked = link.get(id).split(",").includes(box.value);
  setView(link.get("view") in NAMES ? link.get("view") : "explain");
  return link.has("text");
};
