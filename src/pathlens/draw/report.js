(() => {
  "use strict";
  const wire = (root) => {
    root.dataset.rows = "1";
    const table = root.querySelector(".rows");
    const bodies = [...table.tBodies];
    const words = root.querySelector(".filter");
    const loose = root.querySelector(".loose");
    const picks = [...root.querySelectorAll(".choose select")];
    const texts = bodies.map((body) => body.querySelector(".row").textContent.toLowerCase());
    const filter = () => {
      const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      bodies.forEach((body, i) => {
        const on =
          wanted.every((word) => texts[i].includes(word)) &&
          (!loose.checked || body.dataset.loose) &&
          picks.every((pick) => !pick.value || body.dataset[pick.dataset.key] === pick.value);
        body.hidden = !on;
        shown += on;
      });
      root.querySelector(".count").value = `${shown} of ${bodies.length}`;
    };
    words.addEventListener("input", filter);
    loose.addEventListener("change", filter);
    picks.forEach((pick) => pick.addEventListener("change", filter));
    for (const button of table.querySelectorAll("thead button")) {
      button.addEventListener("click", () => {
        const head = button.parentElement;
        const down = head.getAttribute("aria-sort") === "ascending";
        for (const other of table.querySelectorAll("thead th")) other.setAttribute("aria-sort", "none");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const key = button.dataset.key;
        const number = Boolean(button.dataset.number);
        const by = (a, b) =>
          number ? +a.dataset[key] - +b.dataset[key] : (a.dataset[key] || "").localeCompare(b.dataset[key] || "");
        const order = [...bodies].sort((a, b) => (down ? by(b, a) : by(a, b)));
        table.append(...order);
      });
    }
    const open = (row) => {
      const detail = row.nextElementSibling;
      detail.hidden = !detail.hidden;
      row.setAttribute("aria-expanded", String(!detail.hidden));
    };
    for (const row of table.querySelectorAll(".row")) {
      row.addEventListener("click", () => !String(getSelection()) && open(row));
      row.addEventListener("keydown", (event) => {
        if (event.target !== row || !["Enter", " "].includes(event.key)) return;
        event.preventDefault();
        open(row);
      });
    }
  };
  document.querySelectorAll(".pathlens.report:not([data-rows])").forEach(wire);
})();
