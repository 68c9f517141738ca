// Keeps what the reader did to a part (opened details, scroll) when htmx replaces it with a newer one.
"use strict";
(() => {
  const kept = new Map();

  document.addEventListener("htmx:beforeSwap", (event) => {
    const part = event.detail.target;
    if (!part || !part.querySelectorAll) return;
    for (const details of part.querySelectorAll("details[id]")) kept.set(details.id, details.open);
    for (const scroller of part.querySelectorAll(".table-scroll, .diff-scroll")) {
      const block = scroller.closest("[id]");
      if (block && scroller.scrollLeft) kept.set(`scroll:${block.id}`, scroller.scrollLeft);
    }
  });

  document.addEventListener("htmx:afterSettle", () => {
    for (const [id, value] of kept) {
      if (id.startsWith("scroll:")) {
        const block = document.getElementById(id.slice(7));
        const scroller = block && block.querySelector(".table-scroll, .diff-scroll");
        if (scroller) scroller.scrollLeft = value;
      } else {
        const details = document.getElementById(id);
        if (details) details.open = value;
      }
    }
    kept.clear();
  });

  // A filter form leaves no empty parameters in the address.
  document.addEventListener("submit", (event) => {
    if (!event.target.matches("form.filters")) return;
    for (const field of event.target.elements) if (field.name && field.value === "") field.disabled = true;
  });
  window.addEventListener("pageshow", () => {
    for (const field of document.querySelectorAll("form.filters :disabled")) field.disabled = false;
  });
})();
