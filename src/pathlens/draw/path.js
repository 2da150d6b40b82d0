(() => {
  "use strict";
  const SVG = Object.assign(document.createElement("div"), { innerHTML: "<svg></svg>" }).firstChild.namespaceURI;
  const make = (name, attributes, text) => {
    const node = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    return node;
  };
  const el = (name, className, text) => {
    const node = document.createElement(name);
    if (className) node.className = className;
    if (text !== undefined) node.textContent = text;
    return node;
  };
  const short = (value) => (value === null ? "·" : Number(value.toPrecision(4)).toString());
  const brief = (value) => (value === null ? "·" : Number(value.toPrecision(3)).toString());
  const W = 400;
  const H = 190;
  const LEFT = 52;
  const chart = (title, tracks, read) => {
    const lines = tracks.map((track) => track.t.map((_, k) => read(track, k)));
    const flat = lines.flat().filter((v) => v !== null && isFinite(v));
    const low = Math.min(...flat);
    const high = Math.max(...flat);
    const x = (t) => LEFT + t * (W - LEFT - 10);
    const y = (v) => H - 24 - ((v - low) / (high - low || 1)) * (H - 44);
    const svg = make("svg", { viewBox: `0 0 ${W} ${H}`, class: "track", role: "img", "aria-label": title });
    svg.append(make("text", { x: LEFT, y: 12, class: "title" }, title));
    svg.append(make("line", { x1: LEFT, x2: W - 10, y1: H - 24, y2: H - 24, class: "axis" }));
    svg.append(make("text", { x: LEFT - 4, y: y(high) + 4, "text-anchor": "end" }, short(high)));
    svg.append(make("text", { x: LEFT - 4, y: y(low) + 4, "text-anchor": "end" }, short(low)));
    svg.append(make("text", { x: LEFT, y: H - 8 }, "baseline"));
    svg.append(make("text", { x: W - 10, y: H - 8, "text-anchor": "end" }, "text"));
    lines.forEach((values, k) => {
      const d = values.map((v, i) => `${i ? "L" : "M"}${x(tracks[k].t[i]).toFixed(1)} ${y(v).toFixed(1)}`).join("");
      svg.append(make("path", { d, class: `line s${k}` }));
    });
    const cursor = make("line", { y1: 18, y2: H - 24, class: "cursor" });
    const dots = lines.map((_, k) => make("circle", { r: 4, class: `dot s${k}` }));
    svg.append(cursor, ...dots);
    const go = (i) => {
      const at = x(tracks[0].t[i]);
      cursor.setAttribute("x1", at);
      cursor.setAttribute("x2", at);
      dots.forEach((dot, k) => {
        dot.setAttribute("cx", x(tracks[k].t[i]));
        dot.setAttribute("cy", y(lines[k][i]));
      });
    };
    return { svg, go };
  };
  const norm = (row) => Math.sqrt(row.reduce((sum, v) => sum + v * v, 0));
  const mean = (row) => {
    const known = row.filter((v) => v !== null);
    return known.length ? known.reduce((a, b) => a + b, 0) / known.length : null;
  };
  const wire = (root) => {
    root.dataset.live = "1";
    const view = JSON.parse(root.dataset.view);
    const tracks = view.tracks;
    const moving = view.tokens.map((_, i) => i).filter((i) => !view.held[i]);
    const charts = [
      chart(`output: ${view.target}`, tracks, (track, k) => track.output[k]),
      chart("length of the gradient", tracks, (track, k) => norm(track.slope[k])),
    ];
    if (tracks[0].far[0].some((v) => v !== null))
      charts.push(chart("distance to the nearest word, mean over tokens", tracks, (track, k) => mean(moving.map((i) => track.far[k][i]))));
    const key = el("p", "key");
    tracks.forEach((track, k) => key.append(el("span", `swatch s${k}`), el("span", "", ` ${track.method}  `)));
    const label = el("label", "scrub", "along the path ");
    const slider = el("input", "along");
    slider.type = "range";
    slider.min = 0;
    slider.max = tracks[0].t.length - 1;
    slider.value = slider.max;
    const output = el("output", "place");
    label.append(slider, output);
    const table = el("table", "steps");
    const top = table.createTHead().insertRow();
    const head = table.tHead.insertRow();
    top.append(el("td", "", ""));
    head.append(el("th", "", "token"));
    tracks.forEach((track, k) => {
      const name = el("th", "way", "");
      name.colSpan = 3;
      name.append(el("span", `swatch s${k}`), el("span", "", ` ${track.method}`));
      top.append(name);
      head.append(el("th", "", "score so far"), el("th", "", "gradient"), el("th", "", track.anchors.length ? "anchor: nearest words" : "nearest words"));
    });
    const body = table.createTBody();
    const most = Math.max(1e-12, ...tracks.flatMap((track) => track.share.flat().map(Math.abs)));
    const cells = moving.map((i) => {
      const row = body.insertRow();
      const name = el("th", "", view.tokens[i]);
      name.dir = "auto";
      row.append(name);
      return tracks.map(() => {
        const made = [el("td", "number"), el("td", "number"), el("td", "near")];
        made[2].dir = "auto";
        row.append(...made);
        return made;
      });
    });
    const shade = (value) => {
      const step = Math.round((24 * Math.abs(value)) / most);
      return step ? `number ${value > 0 ? "p" : "n"}${Math.min(step, 24)}` : "number";
    };
    const go = () => {
      const i = +slider.value;
      charts.forEach((each) => each.go(i));
      output.value = `${Math.round(100 * tracks[0].t[i])} %: ` + tracks.map((track) => `${track.method} ${short(track.output[i])}`).join(", ");
      moving.forEach((token, row) =>
        tracks.forEach((track, k) => {
          const [share, slope, near] = cells[row][k];
          share.textContent = brief(track.share[i][token]);
          share.className = shade(track.share[i][token]);
          slope.textContent = brief(track.slope[i][token]);
          const anchor = track.anchors.length ? track.anchors[i][token] : "";
          near.textContent = (anchor ? `${anchor}: ` : "") + track.nearest[i][token].map(([word]) => word).join(" · ");
        })
      );
    };
    slider.addEventListener("input", go);
    const scroll = el("div", "scroll");
    scroll.tabIndex = 0;
    scroll.setAttribute("role", "region");
    scroll.setAttribute("aria-label", "token by token");
    scroll.append(table);
    const row = el("div", "charts");
    row.append(...charts.map((each) => each.svg));
    root.append(key, row, label, scroll);
    go();
  };
  document.querySelectorAll(".pathview:not([data-live])").forEach(wire);
})();
