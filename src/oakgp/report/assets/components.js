// Every component: a curve, levels, a surface, lines or tiles, by the kinds of its features.
(() => {
  const { data, byId, make, chart, forget, layout, axis, colour, number, signed, percent, safe, short } = OAK;
  const BAND = 2; // deviations
  const MOST = 24; // levels of a feature that are drawn

  // The slots to draw: knots within the range, or the most frequent levels in the order of training.
  const drawn = (feature, grid, limit = MOST) => {
    if (feature.kind === "levels") {
      const all = feature.labels.map((label, k) => k);
      if (all.length <= limit) return all;
      return all.sort((a, b) => feature.shares[b] - feature.shares[a]).slice(0, limit).sort((a, b) => a - b);
    }
    const knots = feature.grids[grid];
    return [...knots.keys()].filter((k) => knots[k] >= feature.low && knots[k] <= feature.high);
  };
  const place = (feature, grid, slot) =>
    feature.kind === "levels" ? feature.labels[slot] : number(feature.grids[grid][slot]);

  // Deviations of a pair are tabulated at fewer knots than its mean.
  const coarse = (feature, slot) => {
    if (feature.kind === "levels") return [slot, slot, 0];
    const fine = feature.grids.pair, few = feature.grids.band;
    if (slot >= fine.length) return [few.length, few.length, 0];
    return OAK.between(few, fine[slot]);
  };
  OAK.between = (knots, value) => {
    const x = Math.min(Math.max(value, knots[0]), knots[knots.length - 1]);
    let low = 0, high = knots.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (knots[middle] <= x) low = middle;
      else high = middle;
    }
    return [low, high, (x - knots[low]) / (knots[high] - knots[low])];
  };
  OAK.bilinear = (table, width, [a, b, s], [c, d, t]) => {
    const row = (k) => (1 - t) * table[k * width + c] + t * table[k * width + d];
    return (1 - s) * row(a) + s * row(b);
  };
  const deviation = (first, second, table, i, j, grid) =>
    grid === "band"
      ? table.sds[i * second.slots("band") + j]
      : OAK.bilinear(table.sds, second.slots("band"), coarse(first, i), coarse(second, j));

  // Ends of the vertical axis, with a foot for the distribution.
  const room = (traces) => {
    const ends = traces.filter((t) => t.yaxis === "y2").flatMap((t) =>
      t.error_y ? t.y.flatMap((v, k) => [v - t.error_y.array[k], v + t.error_y.array[k]]) : t.y);
    const low = Math.min(...ends), high = Math.max(...ends), span = high - low || 1;
    return [low - 0.2 * span, high + 0.06 * span];
  };

  const curve = (feature, table, effect) => {
    const slots = drawn(feature, "main"), knots = feature.grids.main;
    const x = slots.map((k) => knots[k]);
    const y = slots.map((k) => table.means[k]), sd = slots.map((k) => table.sds[k]);
    const ink = colour("accent");
    const middles = feature.edges.slice(1).map((e, k) => (e + feature.edges[k]) / 2);
    const traces = [
      {
        x: middles, y: feature.masses, type: "bar", marker: { color: colour("hist") },
        customdata: feature.masses.map((m, k) => `${percent(m)} of the rows from ${number(feature.edges[k])} to ${number(feature.edges[k + 1])}`),
        hovertemplate: "%{customdata}<extra></extra>",
      },
      {
        x: [...x, ...[...x].reverse()],
        y: [...y.map((m, k) => m + BAND * sd[k]), ...y.map((m, k) => m - BAND * sd[k]).reverse()],
        fill: "toself", fillcolor: colour("band"), line: { width: 0 }, mode: "lines", hoverinfo: "skip",
        yaxis: "y2",
      },
      {
        x, y, mode: "lines", yaxis: "y2", line: { color: ink, width: 2.2 },
        customdata: x.map((v, k) => `${number(v)}: ${signed(y[k])} ± ${number(BAND * sd[k], 3)}`),
        hovertemplate: "%{customdata}<extra></extra>",
      },
    ];
    if (feature.values) {
      // Few distinct values: what lies between them is only a line to guide the eye.
      const spots = feature.values.map((v) => OAK.between(knots, v));
      const read = (all) => spots.map(([a, b, t]) => (1 - t) * all[a] + t * all[b]);
      const means = read(table.means), sds = read(table.sds);
      traces.push({
        x: feature.values, y: means, yaxis: "y2", mode: "markers", marker: { color: ink, size: 7 }, hoverinfo: "skip",
        error_y: { type: "data", array: sds.map((v) => BAND * v), color: ink, thickness: 1.4, width: 4 },
      });
      traces[1].fillcolor = "rgba(0,0,0,0)";
      traces[2].line = { color: ink, width: 1, dash: "dot" };
    }
    const pad = feature.values ? 0.04 * (feature.high - feature.low) : 0;
    let range = [feature.low - pad, feature.high + pad];
    const more = {};
    if (feature.missing) {
      const last = knots.length, span = feature.high - feature.low, at = feature.high + 0.1 * span;
      traces.push({
        x: [at], y: [table.means[last]], yaxis: "y2", mode: "markers", marker: { color: ink, size: 7, symbol: "diamond" },
        error_y: { type: "data", array: [BAND * table.sds[last]], color: ink, thickness: 1.4, width: 4 },
        customdata: [`missing: ${signed(table.means[last])} ± ${number(BAND * table.sds[last], 3)}`],
        hovertemplate: "%{customdata}<extra></extra>",
      });
      range = [feature.low - pad, feature.high + 0.2 * span];
      more.annotations = [{ x: at, y: 1, yref: "paper", text: "missing", showarrow: false, yanchor: "top", font: { size: 11, color: colour("soft") } }];
    }
    return [traces, layout({
      ...more,
      bargap: 0,
      xaxis: axis(short(feature.name, 40), { range, showgrid: false, zeroline: false }),
      // The distribution lies behind, at the foot of the picture.
      yaxis: { range: [0, 5.5 * Math.max(...feature.masses)], visible: false, fixedrange: true },
      yaxis2: axis(effect, { overlaying: "y", side: "left", range: room(traces) }),
    })];
  };

  const levels = (feature, table, effect) => {
    const slots = drawn(feature, "main").sort((a, b) => table.means[a] - table.means[b]);
    const at = slots.map((s, k) => k);
    return [
      [{
        x: slots.map((s) => table.means[s]), y: at, mode: "markers", type: "scatter",
        marker: { color: colour("accent"), size: slots.map((s) => 6 + 10 * Math.sqrt(feature.shares[s])) },
        error_x: { type: "data", array: slots.map((s) => BAND * table.sds[s]), color: colour("accent"), thickness: 1.5, width: 4 },
        customdata: slots.map((s) => `${safe(feature.labels[s])} (${percent(feature.shares[s])} of the rows): ${signed(table.means[s])} ± ${number(BAND * table.sds[s], 3)}`),
        hovertemplate: "%{customdata}<extra></extra>",
      }],
      layout({
        xaxis: axis(effect),
        yaxis: axis("", {
          tickvals: at, range: [-0.6, at.length - 0.4], showgrid: false, zeroline: false,
          ticktext: slots.map((s) => `${short(feature.labels[s], 18)} · ${percent(feature.shares[s])}`),
        }),
      }),
    ];
  };

  const along = (feature, slots, grid) => slots.map((k) => feature.grids[grid][k]);
  const ticks = (feature, slots, title) =>
    axis(short(title, 34), { tickvals: slots.map((s, k) => k), ticktext: slots.map((s) => short(feature.labels[s], 14)), showgrid: false, zeroline: false });

  const surface = (a, b, table, grid) => {
    const across = drawn(a, grid), up = drawn(b, grid), width = b.slots(grid);
    const z = up.map((j) => across.map((i) => table.means[i * width + j]));
    const sd = up.map((j) => across.map((i) => deviation(a, b, table, i, j, grid)));
    const limit = Math.max(1e-300, ...z.flat().map(Math.abs));
    const x = along(a, across, grid), y = along(b, up, grid);
    const text = z.map((line, r) => line.map((m, c) => `${number(x[c])} and ${number(y[r])}: ${signed(m)} ± ${number(BAND * sd[r][c], 3)}`));
    return [
      [
        {
          x, y, z, type: "contour", colorscale: OAK.diverging(), zmin: -limit, zmax: limit,
          contours: { coloring: "heatmap", showlines: false }, line: { width: 0 }, customdata: text,
          hovertemplate: "%{customdata}<extra></extra>",
          colorbar: { thickness: 10, outlinewidth: 0, tickfont: { size: 10 } },
        },
        {
          x, y, z: z.map((line, r) => line.map((m, c) => Math.abs(m) - BAND * sd[r][c])), type: "contour",
          contours: { type: "constraint", operation: "<", value: 0, coloring: "none" },
          line: { color: colour("ink"), width: 1, dash: "dot" }, fillcolor: "rgba(0,0,0,0)",
          showscale: false, hoverinfo: "skip",
        },
      ],
      layout({
        xaxis: axis(short(a.name, 34), { zeroline: false }),
        yaxis: axis(short(b.name, 24), { zeroline: false }),
      }),
    ];
  };

  const lines = (a, b, at, table, effect, grid) => {
    // ``a`` is numeric, ``b`` has levels; ``at`` finds the entry of the table.
    const across = drawn(a, grid), rows = drawn(b, grid, 8), x = along(a, across, grid);
    const shades = OAK.lines(), traces = [];
    rows.forEach((j, k) => {
      const y = across.map((i) => table.means[at(i, j)]);
      const sd = across.map((i) => at.sd(i, j));
      const ink = shades[k % shades.length];
      if (rows.length <= 4) {
        traces.push({
          x: [...x, ...[...x].reverse()],
          y: [...y.map((m, n) => m + BAND * sd[n]), ...y.map((m, n) => m - BAND * sd[n]).reverse()],
          fill: "toself", fillcolor: ink + "22", line: { width: 0 }, mode: "lines", hoverinfo: "skip",
          legendgroup: String(k), showlegend: false,
        });
      }
      traces.push({
        x, y, mode: "lines", line: { color: ink, width: 2 }, name: short(b.labels[j], 16), legendgroup: String(k),
        customdata: x.map((v, n) => `${safe(b.labels[j])}, ${number(v)}: ${signed(y[n])} ± ${number(BAND * sd[n], 3)}`),
        hovertemplate: "%{customdata}<extra></extra>",
      });
    });
    return [traces, layout({
      showlegend: true, legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, font: { size: 11 } },
      xaxis: axis(short(a.name, 34), { showgrid: false, zeroline: false }), yaxis: axis(effect),
    })];
  };

  const tiles = (a, b, table, grid) => {
    const across = drawn(a, grid), up = drawn(b, grid), width = b.slots(grid);
    const z = up.map((j) => across.map((i) => table.means[i * width + j]));
    const sd = up.map((j) => across.map((i) => deviation(a, b, table, i, j, grid)));
    const limit = Math.max(1e-300, ...z.flat().map(Math.abs));
    const small = across.length <= 6 && up.length <= 8;
    return [
      [{
        x: across.map((s, k) => k), y: up.map((s, k) => k), z, type: "heatmap", colorscale: OAK.diverging(),
        zmin: -limit, zmax: limit, xgap: 2, ygap: 2,
        customdata: z.map((line, r) => line.map((m, c) => `${safe(a.labels[across[c]])} and ${safe(b.labels[up[r]])}: ${signed(m)} ± ${number(BAND * sd[r][c], 3)}`)),
        hovertemplate: "%{customdata}<extra></extra>",
        text: small ? z.map((line) => line.map((m) => signed(m))) : undefined,
        texttemplate: small ? "%{text}" : undefined,
        colorbar: { thickness: 10, outlinewidth: 0, tickfont: { size: 10 } },
      }],
      layout({ xaxis: ticks(a, across, a.name), yaxis: ticks(b, up, b.name) }),
    ];
  };

  const pair = (i, j, table, effect, grid) => {
    const a = data.features[i], b = data.features[j], width = b.slots(grid);
    if (a.kind === "levels" && b.kind === "levels") return tiles(a, b, table, grid);
    if (a.kind !== "levels" && b.kind !== "levels") return surface(a, b, table, grid);
    const numeric = a.kind === "levels" ? b : a, other = a.kind === "levels" ? a : b;
    const turned = a.kind === "levels";
    const at = (n, l) => (turned ? l * width + n : n * width + l);
    at.sd = (n, l) => (turned ? deviation(a, b, table, l, n, grid) : deviation(a, b, table, n, l, grid));
    return lines(numeric, other, at, table, effect, grid);
  };

  const picture = (component, effect, slice) => {
    const { term, table } = component;
    if (table.slices) return pair(table.pair[0], table.pair[1], table.slices[slice], effect, "band");
    if (term.length === 2) return pair(term[0], term[1], table, effect, "pair");
    const feature = data.features[term[0]];
    return feature.kind === "levels" ? levels(feature, table, effect) : curve(feature, table, effect);
  };

  // The same numbers as a table, for keyboards and screen readers.
  const values = (component) => {
    const { term, table } = component;
    const grid = term.length === 1 ? "main" : "pair";
    const few = (feature, limit) => {
      const slots = drawn(feature, grid, 60);
      const step = Math.max(1, Math.ceil(slots.length / limit));
      const found = feature.kind === "levels" ? slots : slots.filter((s, k) => k % step === 0);
      if (feature.kind !== "levels" && feature.missing) found.push(feature.grids[grid].length);
      return found;
    };
    const name = (feature, slot) =>
      feature.kind !== "levels" && slot === feature.grids[grid].length ? "missing" : place(feature, grid, slot);
    const cell = (text, head, n) => make(head ? "th" : "td", { class: n ? "n" : null, scope: head || null }, text);
    const body = make("tbody"), head = make("tr");
    const first = data.features[term[0]];
    if (term.length === 1) {
      head.append(cell(first.name, "col"), cell("effect", "col", true), cell("± 2 deviations", "col", true));
      for (const s of few(first, 12)) {
        body.append(make("tr", {}, cell(name(first, s), "row"), cell(signed(table.means[s]), null, true), cell(number(BAND * table.sds[s], 3), null, true)));
      }
    } else {
      const second = data.features[term[1]], width = second.slots(grid), columns = few(second, 6);
      head.append(cell(`${first.name} \\ ${second.name}`, "col"), ...columns.map((c) => cell(name(second, c), "col", true)));
      for (const s of few(first, 8)) {
        body.append(make("tr", {}, cell(name(first, s), "row"), ...columns.map((c) => cell(signed(table.means[s * width + c]), null, true))));
      }
    }
    return make("div", { class: "scroll" }, make("table", {}, make("thead", {}, head), body));
  };

  const card = (component, output) => {
    const parts = [make("h3", {}, component.label)];
    if (component.share !== null) {
      const interval = component.low === null ? "" : ` (90% interval ${percent(component.low)} to ${percent(component.high)})`;
      parts.push(make("p", { class: "share" }, `${percent(component.share)} of the variance${interval}`));
    }
    if (component.words) parts.push(make("p", {}, component.words));
    if (!component.table) {
      parts.push(make("p", { class: "note" }, "Not drawn: too many features or levels."));
      return make("article", { class: "card" }, ...parts);
    }
    const node = make("div", { class: "chart", role: "img", "aria-label": `${component.label}. ${component.words || "a component of three features, at values of one of them"}` });
    let slice = 0;
    if (component.table.slices) {
      const third = data.features[component.table.third].name;
      const select = make("select", { "aria-label": `value of ${third}` });
      component.table.slices.forEach((s, k) => select.append(make("option", { value: k }, `${third} = ${s.label}`)));
      slice = Math.floor(component.table.slices.length / 2);
      select.value = slice;
      select.addEventListener("change", () => {
        slice = Number(select.value);
        OAK.chart(node, () => picture(component, output.effect, slice));
      });
      parts.push(select);
    }
    parts.push(node);
    chart(node, () => picture(component, output.effect, slice));
    if (!component.table.slices) {
      const details = make("details", {}, make("summary", {}, "Values as a table"));
      details.addEventListener("toggle", () => {
        if (details.open && details.children.length === 1) details.append(values(component));
      });
      parts.push(details);
    }
    return make("article", { class: "card" }, ...parts);
  };

  const cards = byId("cards"), search = byId("component-search"), count = byId("component-count");
  const filter = () => {
    const wanted = search.value.trim().toLowerCase();
    let shown = 0;
    for (const node of cards.children) {
      node.hidden = wanted !== "" && !node.querySelector("h3").textContent.toLowerCase().includes(wanted);
      shown += node.hidden ? 0 : 1;
    }
    count.textContent = `${shown} of ${cards.children.length} shown`;
  };
  const show = (k) => {
    cards.querySelectorAll(".chart").forEach(forget);
    const output = data.outputs[k];
    cards.replaceChildren(...output.components.map((c) => card(c, output)));
    filter();
  };
  if (search) {
    search.addEventListener("input", filter);
    const select = byId("component-output");
    if (select) select.addEventListener("change", () => show(Number(select.value)));
    show(0);
  }
})();
