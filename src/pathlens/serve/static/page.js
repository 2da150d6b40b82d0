// Ask, wait, show. What comes back is a fragment whose texts were escaped by the server; no script in it can run.
import { Job, Stopped, call, facts, howFar } from "/static/api.js";
import { besideForm, body, fill, form, fromLink, point, putExample, setView, toLink, view, views } from "/static/form.js";
import * as result from "/static/result.js";
import * as table from "/static/table.js";

const KINDS = { explain: "explain", pair: "explain", rank: "rank", answer: "answer" };
const go = document.getElementById("go");
const cancel = document.getElementById("cancel");
const state = document.getElementById("state");
const shown = document.getElementById("shown");
let job = null; // the question under way
let asked = 0; // only the latest question may draw

const say = (text) => {
  state.textContent = text;
};
const wrong = document.getElementById("wrong");
const quiet = () => {
  wrong.hidden = true;
  wrong.replaceChildren();
  point(null);
};
const complain = (error) => {
  result.clear(); // nothing that answers another question stays under an error
  table.clear();
  say("");
  result.tell(wrong, error);
  wrong.hidden = false;
  wrong.scrollIntoView({ block: "nearest" }); // on a phone it may be far below
};

let stopping = false;
const progress = (now) => say(stopping ? `stopping … (${howFar(now)})` : howFar(now));

// One question: `more` is added to what the form says; `show` draws what came of it.
export const ask = async (more = {}, show = null) => {
  const mine = ++asked;
  if (job) job.stop();
  stopping = false;
  say("asking …");
  quiet();
  shown.setAttribute("aria-busy", "true"); // what is drawn answers the question before
  go.disabled = true;
  cancel.hidden = false;
  const started = performance.now();
  try {
    if (view() === "table") {
      job = table.job();
      await table.predict(job, say);
    } else {
      const sent = { ...body(), ...more };
      const link = toLink(more);
      job = new Job(KINDS[view()], sent);
      await job.run(progress);
      if (mine !== asked) return;
      const answer = await result.read(job);
      if (mine !== asked) return;
      result.show(job, answer, link, show);
      history.replaceState(null, "", link);
    }
    if (mine !== asked) return;
    say([`done in ${((performance.now() - started) / 1000).toFixed(1)} s`, ...job.warnings].join(" · "));
  } catch (error) {
    if (mine !== asked) return;
    if (error instanceof Stopped) say("stopped");
    else complain(error);
  } finally {
    if (mine === asked) {
      form.dataset.answered = String(mine);
      shown.setAttribute("aria-busy", "false");
      go.disabled = false;
      cancel.hidden = true;
      job = null;
    }
  }
};

// what is under way, and what is shown, answers another view or another model
const interrupt = () => {
  asked++;
  if (job) job.stop();
  job = null;
  go.disabled = false;
  cancel.hidden = true;
  shown.setAttribute("aria-busy", "false");
  say("");
  quiet();
  result.clear();
};
const turn = (name) => {
  if (name === view()) return;
  interrupt();
  setView(name);
  history.pushState(null, "", `#${new URLSearchParams({ view: name })}`); // back leads to the view before
  table.reveal(name === "table");
  putExample();
};
// another link, written or gone back to
const follow = () => {
  const before = view();
  const whole = fromLink(location.hash);
  if (view() !== before) {
    interrupt();
    table.reveal(view() === "table");
  }
  if (whole) ask(besideForm(location.hash));
  else putExample();
};
form.elements.model.addEventListener("change", () => {
  interrupt();
  table.clear();
});

form.addEventListener("submit", (event) => {
  event.preventDefault();
  ask();
});
form.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
});
cancel.addEventListener("click", () => {
  if (!job) return;
  stopping = true;
  say("stopping …");
  job.stop();
});
const tabs = [...document.querySelectorAll("[role=tab]")];
for (const tab of tabs) {
  tab.addEventListener("click", () => turn(tab.dataset.view));
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const offered = tabs.filter((each) => !each.hidden);
    const next = offered[(offered.indexOf(tab) + step + offered.length) % offered.length];
    turn(next.dataset.view);
    next.focus();
  });
}
result.wire(ask, say, complain);
table.wire(ask, complain, turn);

(async () => {
  for (const tab of tabs) tab.hidden = true;
  try {
    const pause = (ms) => new Promise((done) => setTimeout(done, ms));
    const known = (await call("/api/methods")).json();
    let health = await facts();
    // the page opens with the link's model, or the first; the others join when they are there
    const named = new URLSearchParams(location.hash.slice(1)).get("model");
    const first = () => health.models.find((each) => each.name === named) || health.models[0];
    while (first().state === "loading") {
      say(`loading ${first().name} …`);
      await pause(300);
      health = await facts();
    }
    say("");
    fill(health, await known);
    if (!views().length) throw new Error("No model is ready: see what the server printed.");
    const told_what = fromLink(location.hash);
    table.reveal(view() === "table");
    if (!told_what) putExample();
    form.dataset.ready = "1";
    if (told_what || view() !== "table") ask(besideForm(location.hash));
    window.addEventListener("hashchange", follow);
    while (health.models.some((each) => each.state === "loading")) {
      await pause(500);
      health = await facts();
      fill(health);
    }
    form.dataset.loaded = "1";
  } catch (error) {
    complain(error);
  }
})();
