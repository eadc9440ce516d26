"use strict";
// What all parts of the page share: data, numbers, colours, and charts that are drawn when seen.
const OAK = {};
(() => {
  const byId = (id) => document.getElementById(id);
  OAK.byId = byId;
  OAK.data = JSON.parse(byId("page-data").textContent);

  // An element with text and attributes. Text is never read as HTML.
  OAK.make = (tag, attributes = {}, ...children) => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value !== null && value !== undefined) node.setAttribute(name, value);
    }
    node.append(...children);
    return node;
  };

  // Packed arrays: base64 of little-endian numbers.
  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  OAK.unpack = (packed) => {
    const raw = bytes(packed.data).buffer;
    if (packed.kind === "f8") return new Float64Array(raw);
    if (packed.kind === "f4") return Float64Array.from(new Float32Array(raw));
    return Float64Array.from(new Uint16Array(raw), (k) => packed.low + packed.step * k);
  };

  // Numbers in words of four digits, with a true minus sign.
  OAK.number = (value, digits = 4) => {
    if (value === null || !Number.isFinite(value)) return "–";
    const size = Math.abs(value);
    let text = value.toPrecision(digits);
    if (size !== 0 && (size < 1e-4 || size >= 1e7)) text = value.toExponential(digits - 1);
    else if (size >= 10 ** (digits - 1)) text = String(Math.round(value));
    else if (text.includes(".")) text = text.replace(/\.?0+$/, "");
    return text.replace("-", "−").replace("e+", "e");
  };
  OAK.signed = (value) => (value > 0 ? "+" : "") + OAK.number(value, 3);
  OAK.percent = (share) =>
    share > 0 && share < 0.0005 ? "<0.1%" : (100 * share).toFixed(1) + "%";

  // Plotly reads a little HTML in its texts: show names as they are.
  OAK.safe = (text) =>
    String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  OAK.short = (text, limit = 26) => {
    const line = String(text).replace(/\s+/g, " ");
    if (line.length <= limit) return OAK.safe(line);
    const tail = Math.floor((limit - 1) / 3);
    return OAK.safe(line.slice(0, limit - 1 - tail) + "…" + line.slice(line.length - tail));
  };

  OAK.colour = (name) =>
    getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  OAK.lines = () =>
    OAK.isDark()
      ? ["#6fb1f2", "#f5a25d", "#4fc9a4", "#e3a0c8", "#e5cf5b", "#9ad6f7", "#f08c8c", "#b7b7f0"]
      : ["#0072b2", "#d55e00", "#009e73", "#b0568f", "#8f6d00", "#3b93c9", "#a33c3c", "#5b5bb0"];
  OAK.isDark = () => document.documentElement.dataset.theme === "dark";
  OAK.diverging = () => [
    [0, OAK.isDark() ? "#4e9be6" : "#2166ac"],
    [0.25, OAK.isDark() ? "#31567d" : "#92c5de"],
    [0.5, OAK.isDark() ? "#262b32" : "#f7f7f7"],
    [0.75, OAK.isDark() ? "#8a4a36" : "#f4a582"],
    [1, OAK.isDark() ? "#f0805c" : "#b2452b"],
  ];

  const touch = matchMedia("(pointer: coarse)").matches;
  OAK.axis = (title, more = {}) => ({
    title: { text: title, font: { size: 12 }, standoff: 6 },
    gridcolor: OAK.colour("rule"),
    zerolinecolor: OAK.colour("soft"),
    linecolor: OAK.colour("rule"),
    tickfont: { size: 11 },
    automargin: true,
    ...more,
  });
  OAK.layout = (more = {}) => ({
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, sans-serif", size: 12, color: OAK.colour("ink") },
    margin: { l: 10, r: 10, t: 10, b: 10 },
    showlegend: false,
    dragmode: touch ? false : "zoom",
    hoverlabel: { bgcolor: OAK.colour("card"), font: { color: OAK.colour("ink") } },
    ...more,
  });
  const CONFIG = {
    displaylogo: false,
    responsive: true,
    displayModeBar: touch ? false : "hover",
    modeBarButtonsToRemove: ["lasso2d", "select2d", "zoomIn2d", "zoomOut2d", "autoScale2d"],
  };

  // A chart is made of a function that returns traces and layout; it is drawn when it comes into
  // sight, and again when its data or the colours change.
  const charts = new Map();
  const draw = (node) => {
    const entry = charts.get(node);
    if (!entry) return;
    entry.drawn = true;
    const [traces, layout] = entry.make(node);
    Plotly.react(node, traces, layout, CONFIG);
  };
  const seen = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) {
        if (entry.isIntersecting && charts.has(entry.target) && !charts.get(entry.target).drawn) {
          draw(entry.target);
        }
      }
    },
    { rootMargin: "300px" },
  );
  OAK.chart = (node, make) => {
    const before = charts.get(node);
    charts.set(node, { make, drawn: Boolean(before && before.drawn) });
    if (before && before.drawn) draw(node);
    else seen.observe(node);
  };
  OAK.redraw = () => charts.forEach((entry, node) => entry.drawn && draw(node));
  OAK.forget = (node) => {
    seen.unobserve(node);
    if (charts.has(node) && charts.get(node).drawn) Plotly.purge(node);
    charts.delete(node);
  };
  addEventListener("beforeprint", () => charts.forEach((entry, node) => draw(node)));

  // Dark and light: as the system says, until somebody chooses.
  const button = byId("theme");
  const apply = (theme) => {
    document.documentElement.dataset.theme = theme;
    button.textContent = theme === "dark" ? "Light colours" : "Dark colours";
    OAK.redraw();
  };
  const system = matchMedia("(prefers-color-scheme: dark)");
  let chosen = false;
  system.addEventListener("change", () => {
    if (!chosen) apply(system.matches ? "dark" : "light");
  });
  button.addEventListener("click", () => {
    chosen = true;
    apply(OAK.isDark() ? "light" : "dark");
  });
  apply(system.matches ? "dark" : "light");

  // Features: where they are drawn. Slots of a table of levels: these, "missing", "unseen".
  for (const feature of OAK.data.features) {
    if (feature.kind === "levels") feature.unseen = feature.labels.length + 1;
    else feature.grid = OAK.unpack(feature.grid);
  }
  for (const output of OAK.data.outputs) {
    for (const scale of output.scales) {
      if (!scale) continue;
      scale.knots = OAK.unpack(scale.knots);
      scale.positions = OAK.unpack(scale.positions);
    }
    for (const component of output.components) {
      component.scales = component.term.map((i) => output.scales[i]);
      const { table, slices } = component;
      if (table) {
        table.mean = OAK.unpack(table.mean);
        table.sd = OAK.unpack(table.sd);
      }
      if (slices) {
        slices.grids = slices.grids.map(OAK.unpack);
        for (const slice of slices.slices) {
          slice.mean = OAK.unpack(slice.mean);
          slice.sd = OAK.unpack(slice.sd);
        }
      }
    }
  }
})();
