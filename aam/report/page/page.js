"use strict";
// Without this script all is there to read; with it tables can be sorted and kept, and marks speak at once.
(() => {
  const value = (row, place) => row.cells[place].textContent.trim();

  function sort(table, head, place) {
    const descending = head.getAttribute("aria-sort") === "ascending";
    const body = table.tBodies[0];
    const rows = [...body.rows];
    const numbers = rows.every((row) => value(row, place) === "" || !Number.isNaN(parseFloat(value(row, place))));
    const compare = numbers
      ? (a, b) => (parseFloat(value(a, place)) || 0) - (parseFloat(value(b, place)) || 0)
      : (a, b) => value(a, place).localeCompare(value(b, place));
    rows.sort((a, b) => (descending ? -compare(a, b) : compare(a, b)));
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", descending ? "descending" : "ascending");
    body.append(...rows);
  }

  for (const table of document.querySelectorAll("table")) {
    [...table.tHead.rows[0].cells].forEach((head, place) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      button.addEventListener("click", () => sort(table, head, place));
      head.append(button);
    });
    const keep = document.createElement("button");
    keep.type = "button";
    keep.className = "download";
    keep.textContent = "Download as TSV";
    keep.addEventListener("click", () => {
      const lines = [...table.rows].map((row) => [...row.cells].map((cell) => cell.textContent.trim()).join("\t"));
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([lines.join("\n") + "\n"], { type: "text/tab-separated-values" }));
      link.download = `${table.dataset.name}.tsv`;
      link.click();
      URL.revokeObjectURL(link.href);
    });
    table.parentElement.after(keep);
  }

  const tip = document.createElement("div");
  tip.id = "tip";
  tip.hidden = true;
  tip.setAttribute("aria-hidden", "true");
  document.body.append(tip);
  // The browser's own tips come late, and not at all where there is no pointer.
  const texts = new WeakMap();
  for (const title of document.querySelectorAll("svg title")) {
    texts.set(title.parentElement, title.textContent);
    title.remove();
  }
  const told = (target) => {
    for (let at = target; at instanceof SVGElement; at = at.parentElement) if (texts.has(at)) return texts.get(at);
    return null;
  };
  const show = (event) => {
    const text = told(event.target);
    tip.hidden = text === null;
    if (text === null) return;
    tip.textContent = text;
    const { width, height } = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 12, innerWidth - width - 4))}px`;
    tip.style.top = `${event.clientY > height + 16 ? event.clientY - height - 8 : event.clientY + 16}px`;
  };
  document.addEventListener("pointermove", show);
  document.addEventListener("pointerdown", show);
  document.addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });
})();
