"use strict";
// Ask, wait, show. What comes back is a fragment whose texts were escaped by the server; no script in it can run.
(() => {
  const state = document.getElementById("state");
  const result = document.getElementById("result");
  const tools = document.getElementById("tools");
  const edit = document.getElementById("edit");
  const go = document.getElementById("go");
  const cancel = document.getElementById("cancel");
  let job = null; // the job on the page, or under way
  let edits = []; // what-if: edits tried so far
  let asked = 0; // only the latest question may draw

  const secret = () => {
    const said = new URLSearchParams(location.hash.slice(1));
    if (said.has("token")) {
      sessionStorage.setItem("token", said.get("token"));
      said.delete("token");
      history.replaceState(null, "", `#${said}`);
    }
    return sessionStorage.getItem("token");
  };
  const token = secret();

  const call = async (path, options = {}) => {
    const headers = { ...(options.body ? { "Content-Type": "application/json" } : {}), ...(token ? { Authorization: `Bearer ${token}` } : {}) };
    const response = await fetch(path, { ...options, headers });
    if (response.ok) return response;
    let detail = `${response.status}`;
    try {
      detail = (await response.json()).detail || detail;
    } catch {
      /* not JSON: the number must do */
    }
    throw new Error(detail);
  };
  const say = (text, wrong = false) => {
    state.textContent = text;
    state.classList.toggle("wrong", wrong);
  };
  const pause = (ms) => new Promise((done) => setTimeout(done, ms));

  const follow = async (found, mine) => {
    for (let wait = 60; ; wait = Math.min(wait * 1.4, 600)) {
      const now = await (await call(`/api/jobs/${found.id}`)).json();
      if (mine !== asked) return null;
      if (now.state === "done") return now;
      if (now.state === "failed" || now.state === "cancelled") throw new Error(now.error);
      const at = now.stage ? `${now.stage} …` : `${now.points} points`;
      say(now.state === "waiting" ? `waiting, ${now.ahead} before this` : `${at}, ${now.seconds.toFixed(1)} s`);
      await pause(wait);
    }
  };

  const ask = async (more = {}) => {
    const mine = ++asked;
    const view = form.dataset.view;
    go.disabled = true;
    cancel.hidden = false;
    say("asking …");
    result.setAttribute("aria-busy", "true"); // what is drawn below answers the question before
    const started = performance.now();
    try {
      if (job && job.busy) await call(`/api/jobs/${job.id}`, { method: "DELETE" }).catch(() => {});
      const sent = { ...body(), ...more };
      const link = toLink();
      job = await (await call(`/api/${view}?wait=false`, { method: "POST", body: JSON.stringify(sent) })).json();
      job.busy = true;
      const done = await follow(job, mine);
      if (!done) return;
      const html = await (await call(`/api/jobs/${job.id}/result?format=fragment`)).text();
      if (mine !== asked) return;
      job.busy = false;
      result.innerHTML = html;
      window.pathlensWire();
      tools.hidden = false;
      document.getElementById("permalink").href = link;
      history.replaceState(null, "", link);
      if (view === "whatif") await offerEdits();
      else edit.hidden = true;
      const total = ((performance.now() - started) / 1000).toFixed(1);
      say([`done in ${total} s`, ...done.warnings].join(" · "));
      result.dataset.done = job.id;
    } catch (error) {
      if (mine !== asked) return;
      if (job) job.busy = false;
      say(error.message, true);
    } finally {
      if (mine === asked) {
        go.disabled = false;
        result.setAttribute("aria-busy", "false");
        cancel.hidden = true;
      }
    }
  };

  const offerEdits = async () => {
    const found = await (await call(`/api/jobs/${job.id}/result?format=json`)).json();
    const { tokens, special, offsets } = found.explanation;
    const units = edit.querySelector("[name=unit_at]");
    const before = units.value;
    units.replaceChildren(...tokens.flatMap((name, i) => (special[i] || offsets[i][1] <= offsets[i][0] ? [] : [option(String(i), `${i} ${name}`)])));
    if (before) units.value = before;
    edit.hidden = false;
  };

  document.getElementById("add").addEventListener("click", () => {
    const kind = edit.querySelector("[name=kind]").value;
    edits.push({ unit: +edit.querySelector("[name=unit_at]").value, kind, replacement: kind === "replace" ? edit.querySelector("[name=replacement]").value : "" });
    ask({ edits });
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    edits = [];
    ask();
  });
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  cancel.addEventListener("click", () => job && call(`/api/jobs/${job.id}`, { method: "DELETE" }).catch((error) => say(error.message, true)));
  const tabs = [...form.querySelectorAll("[role=tab]")];
  tabs.forEach((tab, i) => {
    tab.addEventListener("click", () => setView(tab.dataset.view));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = tabs[(i + step + tabs.length) % tabs.length];
      setView(next.dataset.view);
      next.focus();
    });
  });
  for (const button of tools.querySelectorAll("[data-export]")) {
    button.addEventListener("click", async () => {
      const kind = button.dataset.export;
      try {
        const blob = await (await call(`/api/jobs/${job.id}/result?format=${kind}`)).blob();
        const link = document.createElement("a");
        link.href = URL.createObjectURL(blob);
        link.download = `pathlens.${kind}`;
        link.click();
        setTimeout(() => URL.revokeObjectURL(link.href), 10000);
      } catch (error) {
        say(error.message, true);
      }
    });
  }
  (async () => {
    setView("explain");
    try {
      const health = async () => (await call("/api/health")).json();
      const first = await health();
      fillModels(first);
      say("starting …");
      fillForm(await (await call("/api/methods")).json(), first.choices);
      say("");
      const act = fromLink(location.hash);
      form.dataset.ready = "1";
      if (act) ask();
      window.addEventListener("hashchange", () => fromLink(location.hash) && ask());
      // models may still be on their way: a question can be asked already, and waits for them
      for (let facts = await health(); facts.models.some((model) => model.state === "loading"); facts = await health()) {
        fillModels(facts);
        await pause(500);
      }
      fillModels(await health());
    } catch (error) {
      say(error.message, true);
    }
  })();
})();
