(() => {
  "use strict";
  // a continuation: choosing an output token colours the prompt by that token's column; texts only become textContent
  const el = (name, className, text) => {
    const node = document.createElement(name);
    if (className) node.className = className;
    if (text !== undefined) node.textContent = text;
    return node;
  };
  const wire = (root) => {
    root.dataset.live = "1";
    const view = JSON.parse(root.dataset.view);
    const bytes = Uint8Array.from(atob(root.dataset.matrix), (c) => c.charCodeAt(0));
    const matrix = new Float32Array(bytes.buffer);
    const T = view.outputs.length;
    const U = view.tokens.length;
    delete root.dataset.matrix;
    const list = root.querySelector(".outputs");
    const outs = [...root.querySelectorAll(".out")].map((node) => ({ node, at: node.dataset.outputs.split(" ").map(Number), source: +node.dataset.source }));
    const units = [...root.querySelectorAll(".prompt .unit")].map((node) => ({ node, at: node.dataset.units.split(" ").map(Number) }));
    const chosen = root.querySelector(".chosen");
    const strongest = root.querySelector(".strongest");
    const box = root.querySelector(".pixelbox");
    const heads = [...root.querySelectorAll(".matrix thead th[scope=col]")];
    const proof = el("p", "certificate"); // of the chosen token, folded with the others
    const drawer = root.closest("article").querySelector(":scope > footer > .diagnostics");
    if (drawer) drawer.append(proof);
    const sums = new Float64Array(U);
    for (let u = 0; u < U; u++) for (let t = 0; t < T; t++) sums[u] += matrix[u * T + t];
    const number = (value, sign = true) => {
      const text = value.toFixed(view.digits);
      if (+text === 0) return text.replace("-", "");
      return (sign && value > 0 ? "+" : "") + text;
    };
    const shade = (value, limit) => {
      const step = Math.min(view.levels, Math.round((view.levels * Math.abs(value)) / limit));
      return step ? `${value > 0 ? "p" : "n"}${step}` : "";
    };
    const bars = (column, limit) => {
      const order = [...column.keys()].filter((u) => column[u] !== 0).sort((a, b) => Math.abs(column[b]) - Math.abs(column[a]));
      const shown = order.slice(0, view.bars);
      const most = (sign) => Math.max(0, ...shown.map((u) => (sign * column[u]) / limit));
      const [falls, rises] = [most(-1), most(1)]; // the line stands where the bars need it
      const table = el("table", !falls ? "bars rising" : rises ? "bars" : "bars falling");
      table.style.setProperty("--below", `${falls / (falls + rises || 1)}`);
      const row = (name, value, kind) => {
        const line = table.insertRow();
        if (kind) line.className = kind;
        const head = el("th", "", name);
        head.scope = "row";
        line.append(head, el("td", "value", number(value)));
        if (kind) return;
        const bar = el("i", value > 0 ? "up" : "down");
        bar.style.width = `${((100 * Math.abs(value)) / limit / (value > 0 ? rises : falls)).toFixed(1)}%`;
        const cells = [...(falls ? [el("td", "below")] : []), ...(rises || !falls ? [el("td", "above")] : [])];
        cells[value > 0 ? cells.length - 1 : 0].append(bar);
        line.append(...cells);
      };
      let listed = 0;
      let total = 0;
      for (const value of column) total += value;
      for (const u of shown) {
        row(view.tokens[u], column[u]);
        listed += column[u];
      }
      if (view.additive && order.length > view.bars) row(`${order.length - view.bars} others`, total - listed, "sum");
      if (view.additive) row("sum", total, "sum");
      strongest.replaceChildren(table);
    };
    let now = -1; // -1: the whole continuation
    const choose = (t) => {
      now = t;
      const column = t < 0 ? sums : Float64Array.from({ length: U }, (_, u) => matrix[u * T + t]);
      let limit = 0;
      for (const value of column) limit = Math.max(limit, Math.abs(value));
      limit = limit || 1;
      let top = null; // the strongest source, to be brought into view where the prompt scrolls
      let most = 0;
      for (const { node, at } of units) {
        const value = at.reduce((sum, u) => sum + column[u], 0);
        node.className = `unit ${shade(value, limit)}`;
        node.dataset.tip = at.map((u) => `${view.tokens[u]} ${number(column[u])}`).join(" ");
        if (t >= 0 && Math.abs(value) > most) [top, most] = [node, Math.abs(value)];
      }
      if (top) {
        const pane = top.closest(".prompt");
        const frame = pane.getBoundingClientRect();
        const spot = top.getBoundingClientRect();
        if (spot.top < frame.top || spot.bottom > frame.bottom) pane.scrollTop += spot.top - frame.top - frame.height / 2;
      }
      for (const { node, at, source } of outs) {
        const on = at.includes(t);
        const before = source >= 0 && (t < 0 || at[0] < t) && !on;
        node.className = `out ${before ? shade(column[source], limit) : ""} ${on ? "on" : t >= 0 && at[0] > t ? "later" : ""}`;
        node.setAttribute("aria-selected", String(on));
        if (on) list.setAttribute("aria-activedescendant", node.id);
      }
      const k = t < 0 ? T : t;
      const name = t < 0 ? view.whole : `“${view.outputs[t]}” (${t + 1} of ${T})`;
      const mark = view.settled[k] ? "✓" : "✗";
      chosen.textContent = `${name}: ${view.score} ${view.ends[k]}; ${mark} ${view.claims[k]}`;
      proof.hidden = t < 0; // the whole has its lines on the page already
      proof.textContent = `${mark} ${name}: ${view.lines[k]}; full colour is ${number(limit, false)}`;
      chosen.classList.toggle("rough", !view.settled[k]);
      bars(column, limit);
      heads.forEach((head, j) => head.classList.toggle("on", j === t));
      if (box) {
        const cursor = box.querySelector(".cursor");
        cursor.hidden = t < 0;
        cursor.style.left = `${(100 * t) / T}%`;
        cursor.style.width = `${100 / T}%`;
      }
    };
    outs.forEach(({ node, at }, i) => {
      node.id = `out-${Math.random().toString(36).slice(2)}-${i}`;
      node.addEventListener("click", () => {
        const k = at.indexOf(now); // several tokens may share one character: a click goes to the next of them
        choose(k < 0 ? at[0] : k + 1 < at.length ? at[k + 1] : -1);
        list.focus({ preventScroll: true });
      });
    });
    list.addEventListener("keydown", (event) => {
      const go = { ArrowRight: Math.min(now + 1, T - 1), ArrowLeft: Math.max(now - 1, -1), Home: 0, End: T - 1, Escape: -1 }[event.key];
      if (go === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      choose(go);
    });
    heads.forEach((head, j) => head.addEventListener("click", () => choose(j === now ? -1 : j)));
    if (box) {
      const readout = root.querySelector(".readout");
      const cell = (event) => {
        const frame = box.getBoundingClientRect();
        const part = (at, length, count) => Math.max(0, Math.min(count - 1, Math.floor((count * at) / length)));
        return [part(event.clientY - frame.top, frame.height, U), part(event.clientX - frame.left, frame.width, T)];
      };
      box.addEventListener("click", (event) => choose(cell(event)[1]));
      box.addEventListener("mousemove", (event) => {
        const [u, t] = cell(event);
        readout.textContent = `${view.tokens[u]} → ${view.outputs[t]}: ${number(matrix[u * T + t])}`;
      });
    }
    choose(-1);
  };
  document.querySelectorAll(".pathlens .said[data-view]:not([data-live])").forEach(wire);
})();
