(() => {
  "use strict";
  // a notebook may be dark where the system is light, or the other way round: then the ground beneath decides
  const beneath = (root) => {
    const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    for (let node = root.parentElement; node; node = node.parentElement) {
      const [red, green, blue, alpha = 1] = (getComputedStyle(node).backgroundColor.match(/[\d.]+/g) || [0, 0, 0, 0]).map(Number);
      const scheme = 0.3 * red + 0.6 * green + 0.1 * blue < 128 ? "dark" : "light";
      if (alpha > 0.5) return scheme === system ? "" : scheme;
    }
    return "";
  };
  const wire = (root) => {
    root.dataset.live = "1";
    root.dataset.theme = beneath(root);
    // with a script, tips show at once; without one, the browser shows the title by itself
    for (const unit of root.querySelectorAll(".unit[title]")) {
      unit.dataset.tip = unit.title;
      unit.removeAttribute("title");
    }
    // one tab stop per text, arrow keys inside it
    for (const text of root.querySelectorAll(".text")) {
      const units = [...text.querySelectorAll(".unit")];
      units.forEach((unit, i) => (unit.tabIndex = i ? -1 : 0));
      text.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        const at = units.indexOf(document.activeElement);
        if (!step || at < 0 || !units[at + step]) return;
        event.preventDefault();
        units[at].tabIndex = -1;
        units[at + step].tabIndex = 0;
        units[at + step].focus();
      });
    }
    for (const figure of root.querySelectorAll("figure:has(.controls)")) arcs(figure); // charts are figures too
  };
  const arcs = (figure) => {
    const all = [...figure.querySelectorAll(".arc")];
    const most = Math.max(0, ...all.map((arc) => +arc.dataset.size));
    const top = figure.querySelector(".top");
    const least = figure.querySelector(".least");
    const digits = +figure.querySelector(".controls").dataset.digits;
    const draw = () => {
      const floor = (most * least.value) / 100;
      let shown = 0;
      for (const arc of all) {
        const on = +arc.dataset.rank < +top.value && +arc.dataset.size >= floor;
        arc.setAttribute("display", on ? "inline" : "none");
        shown += on;
      }
      figure.querySelector(".shown").value = `${shown} of ${all.length}`;
      figure.querySelector(".floor").value = floor ? floor.toFixed(digits) : "0";
    };
    top.addEventListener("input", draw);
    least.addEventListener("input", draw);
    const svg = figure.querySelector("svg");
    const pick = (event) => {
      const label = event.target.closest("text[data-unit]");
      svg.classList.toggle("picked", Boolean(label));
      if (!label) return;
      const name = label.parentElement.getAttribute("class") + label.dataset.unit;
      for (const arc of all) arc.classList.toggle("on", arc.dataset.ends.split(" ").includes(name));
    };
    svg.addEventListener("mouseover", pick);
    svg.addEventListener("mouseleave", () => svg.classList.remove("picked"));
    draw();
  };
  document.querySelectorAll(".pathlens:not([data-live])").forEach(wire);
})();
