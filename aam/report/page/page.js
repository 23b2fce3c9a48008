"use strict";
// The page is complete without this script, which adds sorting, downloads of tables, and tooltips.
(() => {
  const value = (row, column) => row.cells[column].textContent.trim();
  const isMissing = (text) => text === "" || text === "–";
  // A number may have a sign of order before it, and a unit, an interval or a total behind it:
  // "1,234", "< 0.0001", "12 %", "0.71 [0.60, 0.80]", "3 of 5". A date such as 2020-01-02 is none.
  const NUMBER = /^[<>]?\s*([+-]?[\d,]*\.?\d+(?:e[+-]?\d+)?)(?:\s*%|\s*\[.*\]|\s+of\s+\d+)?$/i;
  const number = (text) => {
    const match = NUMBER.exec(text);
    return match === null ? NaN : Number(match[1].replaceAll(",", ""));
  };

  function sort(table, head, column) {
    const descending = head.getAttribute("aria-sort") === "ascending";
    const body = table.tBodies[0];
    const rows = [...body.rows];
    const known = rows.filter((row) => !isMissing(value(row, column)));
    const missing = rows.filter((row) => isMissing(value(row, column)));
    const compare = known.every((row) => !Number.isNaN(number(value(row, column))))
      ? (a, b) => number(value(a, column)) - number(value(b, column))
      : (a, b) => value(a, column).localeCompare(value(b, column), undefined, { numeric: true });
    known.sort((a, b) => (descending ? -compare(a, b) : compare(a, b)));
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", descending ? "descending" : "ascending");
    // Missing values stay at the end, whatever the order.
    body.append(...known, ...missing);
  }

  for (const table of document.querySelectorAll("table")) {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      button.addEventListener("click", () => sort(table, head, column));
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
  // The browser shows its own tooltips late, and without a pointer not at all.
  const texts = new WeakMap();
  for (const title of document.querySelectorAll("svg title")) {
    texts.set(title.parentElement, title.textContent);
    title.remove();
  }
  const tooltipText = (target) => {
    for (let at = target; at instanceof SVGElement; at = at.parentElement) if (texts.has(at)) return texts.get(at);
    return null;
  };
  const show = (event) => {
    const text = tooltipText(event.target);
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
