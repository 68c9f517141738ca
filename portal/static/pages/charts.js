// Draws every .plot with Plotly from the JSON beside it, in the page's colours, again when they or the data change.
"use strict";
(() => {
  const CONFIG = { displaylogo: false, displayModeBar: false, responsive: true, scrollZoom: false, doubleClick: "reset" };
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

  function draw(plot) {
    const source = document.getElementById(plot.dataset.figure);
    if (!source || !window.Plotly) return;
    const styles = getComputedStyle(document.documentElement);
    const figure = resolved(JSON.parse(source.textContent), styles);
    figure.layout.font.family = getComputedStyle(document.body).fontFamily;
    figure.layout.height = Number(plot.dataset.height) || 340;
    const narrow = plot.clientWidth < 480;
    if (narrow) {
      // One column of legend entries would take the plot's own room, and a finger scrolls the page, not the plot.
      figure.layout.dragmode = false;
      figure.layout.height += 22 * figure.data.filter((trace) => trace.showlegend !== false).length;
      Object.assign(figure.layout.legend, { y: -0.32, yanchor: "top" });
    }
    window.Plotly.react(plot, figure.data, figure.layout, CONFIG).then(() => {
      plot.classList.add("is-drawn");
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

  function drawAll(root) {
    for (const plot of root.querySelectorAll(".plot[data-figure]")) draw(plot);
  }

  drawAll(document);
  dark.addEventListener("change", () => drawAll(document));
  document.addEventListener("htmx:afterSwap", () => drawAll(document));
  document.addEventListener("htmx:beforeCleanupElement", (event) => {
    if (event.target.matches && event.target.matches(".js-plotly-plot")) window.Plotly.purge(event.target);
  });
  window.addEventListener("beforeprint", () => {
    for (const plot of document.querySelectorAll(".js-plotly-plot")) window.Plotly.Plots.resize(plot);
  });
})();
