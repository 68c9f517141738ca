// Draws every .plot with Plotly from the JSON beside it, in the page's colours, again when they or the data change.
"use strict";
(() => {
  const CONFIG = { displaylogo: false, displayModeBar: false, responsive: false, scrollZoom: false, doubleClick: "reset" };
  const NARROW = 480; // pixels
  const dark = window.matchMedia("(prefers-color-scheme: dark)");

  // Figures name colours as var(--name): the values are the page's own.
  function resolved(value, styles) {
    if (typeof value === "string") {
      const name = /^var\((--[\w-]+)\)$/.exec(value);
      return name ? styles.getPropertyValue(name[1]).trim() : value;
    }
    if (Array.isArray(value)) return value.map((item) => resolved(item, styles));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, resolved(item, styles)]));
    }
    return value;
  }

  const widthOf = (plot) => Math.floor(plot.getBoundingClientRect().width);

  function draw(plot) {
    const source = document.getElementById(plot.dataset.figure);
    if (!source || !window.Plotly) return;
    const styles = getComputedStyle(document.documentElement);
    const figure = resolved(JSON.parse(source.textContent), styles);
    figure.layout.font.family = getComputedStyle(document.body).fontFamily;
    figure.layout.height = Number(plot.dataset.height) || 340;
    const narrow = widthOf(plot) < NARROW;
    if (narrow) {
      // One column of legend entries would take the plot's own room, and a finger scrolls the page, not the plot.
      figure.layout.dragmode = false;
      figure.layout.height += 22 * figure.data.filter((trace) => trace.showlegend !== false).length;
      Object.assign(figure.layout.legend, { y: -0.32, yanchor: "top" });
    }
    // A width and a height, always: Plotly's own sizing takes both from the container, which has no height of its own.
    figure.layout.width = widthOf(plot);
    plot.dataset.width = figure.layout.width;
    widths.observe(plot);
    window.Plotly.react(plot, figure.data, figure.layout, CONFIG).then(() => {
      plot.classList.add("is-drawn");
      fit(plot); // its width may have changed while it was drawn
      if (plot.dataset.bound) return;
      plot.dataset.bound = "yes";
      plot.on("plotly_click", (event) => {
        const address = event.points[0] && event.points[0].customdata;
        // Only addresses of this portal: the data is ours, but it names strangers' work.
        if (typeof address === "string" && address.startsWith("/") && !address.startsWith("//")) {
          if (event.event && (event.event.ctrlKey || event.event.metaKey)) window.open(address, "_blank", "noopener");
          else window.location.assign(address);
        }
      });
    });
  }

  // A plot gets narrower with the window, and also when a scrollbar appears.
  const widths = new ResizeObserver((entries) => window.requestAnimationFrame(() => {
    for (const { target } of entries) fit(target);
  }));

  function fit(plot) {
    const [before, now] = [Number(plot.dataset.width), widthOf(plot)];
    if (!now || now === before || !plot.classList.contains("is-drawn")) return;
    if ((now < NARROW) !== (before < NARROW)) {
      draw(plot);
    } else {
      plot.dataset.width = now;
      window.Plotly.relayout(plot, { width: now });
    }
  }

  function drawAll(root) {
    for (const plot of root.querySelectorAll(".plot[data-figure]")) draw(plot);
  }

  drawAll(document);
  dark.addEventListener("change", () => drawAll(document));
  document.addEventListener("htmx:afterSwap", () => drawAll(document));
  document.addEventListener("htmx:beforeCleanupElement", (event) => {
    if (event.target.matches && event.target.matches(".js-plotly-plot")) {
      widths.unobserve(event.target);
      window.Plotly.purge(event.target);
    }
  });
  window.addEventListener("beforeprint", () => {
    for (const plot of document.querySelectorAll(".plot.is-drawn")) fit(plot);
  });
})();
