// Every component: a curve, levels, a surface, lines or tiles, by the kinds of its features.
(() => {
  const { data, byId, make, chart, forget, layout, axis, colour, number, signed, percent, safe, short } = OAK;
  const BAND = 2; // deviations
  const MOST = 24; // levels of a feature that are drawn

  // Where to draw: values of a number, or the most frequent levels in the order of training.
  const spots = (feature, limit = MOST, step = 1) => {
    if (feature.kind !== "levels") return Array.from(feature.grid).filter((v, k) => k % step === 0);
    const all = feature.labels.map((label, k) => k);
    if (feature.missing) all.push(null);
    if (all.length <= limit) return all;
    const share = (k) => feature.shares[k === null ? feature.labels.length : k];
    return [...all].sort((a, b) => share(b) - share(a)).slice(0, limit);
  };
  const say = (feature, value) =>
    value === null ? "missing" : feature.kind === "levels" ? feature.labels[value] : number(value);
  const share = (feature, level) => feature.shares[level === null ? feature.labels.length : level];
  const described = (mean, sd) => `${signed(mean)} ± ${number(BAND * sd, 3)}`;

  // Ends of the vertical axis, with a foot for the distribution.
  const room = (traces) => {
    const ends = traces.filter((t) => t.yaxis === "y2").flatMap((t) =>
      t.error_y ? t.y.flatMap((v, k) => [v - t.error_y.array[k], v + t.error_y.array[k]]) : t.y);
    const low = Math.min(...ends), high = Math.max(...ends), span = high - low || 1;
    return [low - 0.2 * span, high + 0.06 * span];
  };

  const curve = (feature, component, effect) => {
    const x = spots(feature), found = OAK.over(component, [x]), y = found.mean, sd = found.sd;
    const ink = colour("accent");
    const middles = feature.edges.map(([low, high]) => (low + high) / 2);
    const traces = [
      {
        x: middles, y: feature.masses, type: "bar", width: feature.edges.map(([low, high]) => high - low), marker: { color: colour("hist") },
        customdata: feature.masses.map((m, k) => `${percent(m)} of the rows ` + (feature.values ? `at ${number(feature.values[k])}` : `from ${number(feature.edges[k][0])} to ${number(feature.edges[k][1])}`)),
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
        customdata: x.map((v, k) => `${number(v)}: ${described(y[k], sd[k])}`),
        hovertemplate: "%{customdata}<extra></extra>",
      },
    ];
    if (feature.values) {
      // Few distinct values: what lies between them is only a line to guide the eye.
      const { mean: means, sd: sds } = OAK.over(component, [feature.values]);
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
      const span = feature.high - feature.low, at = feature.high + 0.1 * span;
      const [mean, deviation] = OAK.contribution(component, { [component.term[0]]: null });
      traces.push({
        x: [at], y: [mean], yaxis: "y2", mode: "markers", marker: { color: ink, size: 7, symbol: "diamond" },
        error_y: { type: "data", array: [BAND * deviation], color: ink, thickness: 1.4, width: 4 },
        customdata: [`missing: ${described(mean, deviation)}`],
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
      yaxis2: axis(effect, { overlaying: "y", side: "left", tickmode: "auto", range: room(traces) }),
    })];
  };

  const levels = (feature, component, effect) => {
    const all = spots(feature), found = OAK.over(component, [all]);
    const order = all.map((s, k) => k).sort((a, b) => found.mean[a] - found.mean[b]);
    const at = order.map((s, k) => k), shown = order.map((k) => all[k]);
    const mean = order.map((k) => found.mean[k]), sd = order.map((k) => found.sd[k]);
    return [
      [{
        x: mean, y: at, mode: "markers", type: "scatter",
        marker: { color: colour("accent"), size: shown.map((s) => 6 + 10 * Math.sqrt(share(feature, s))) },
        error_x: { type: "data", array: sd.map((v) => BAND * v), color: colour("accent"), thickness: 1.5, width: 4 },
        customdata: shown.map((s, k) => `${safe(say(feature, s))} (${percent(share(feature, s))} of the rows): ${described(mean[k], sd[k])}`),
        hovertemplate: "%{customdata}<extra></extra>",
      }],
      layout({
        xaxis: axis(effect),
        yaxis: axis("", {
          tickvals: at, range: [-0.6, at.length - 0.4], showgrid: false, zeroline: false,
          ticktext: shown.map((s) => `${short(say(feature, s), 18)} · ${percent(share(feature, s))}`),
        }),
      }),
    ];
  };

  const turn = (rows) => rows[0].map((v, k) => rows.map((row) => row[k]));
  const ticks = (feature, shown, title) =>
    axis(short(title, 34), { tickvals: shown.map((s, k) => k), ticktext: shown.map((s) => short(say(feature, s), 14)), showgrid: false, zeroline: false });
  const limit = (z) => Math.max(1e-300, ...z.flat().map(Math.abs));

  // ``mean`` and ``sd`` have a row for each value of the first feature.
  const surface = (a, b, x, y, mean, sd) => {
    const z = turn(mean), s = turn(sd), most = limit(z);
    const text = z.map((line, r) => line.map((m, c) => `${number(x[c])} and ${number(y[r])}: ${described(m, s[r][c])}`));
    return [
      [
        {
          x, y, z, type: "contour", colorscale: OAK.diverging(), zmin: -most, zmax: most,
          contours: { coloring: "heatmap", showlines: false }, line: { width: 0 }, customdata: text,
          hovertemplate: "%{customdata}<extra></extra>",
          colorbar: { thickness: 10, outlinewidth: 0, tickfont: { size: 10 } },
        },
        {
          x, y, z: z.map((line, r) => line.map((m, c) => Math.abs(m) - BAND * s[r][c])), type: "contour",
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

  // ``a`` is a number and ``b`` has levels: a line for each.
  const lines = (a, b, x, shown, mean, sd, effect) => {
    const shades = OAK.lines(), traces = [];
    shown.forEach((level, k) => {
      const y = mean.map((row) => row[k]), s = sd.map((row) => row[k]);
      const ink = shades[k % shades.length];
      if (shown.length <= 4) {
        traces.push({
          x: [...x, ...[...x].reverse()],
          y: [...y.map((m, n) => m + BAND * s[n]), ...y.map((m, n) => m - BAND * s[n]).reverse()],
          fill: "toself", fillcolor: ink + "22", line: { width: 0 }, mode: "lines", hoverinfo: "skip",
          legendgroup: String(k), showlegend: false,
        });
      }
      traces.push({
        x, y, mode: "lines", line: { color: ink, width: 2 }, name: short(say(b, level), 16), legendgroup: String(k),
        customdata: x.map((v, n) => `${safe(say(b, level))}, ${number(v)}: ${described(y[n], s[n])}`),
        hovertemplate: "%{customdata}<extra></extra>",
      });
    });
    return [traces, layout({
      showlegend: true, legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, font: { size: 11 } },
      xaxis: axis(short(a.name, 34), { showgrid: false, zeroline: false }), yaxis: axis(effect),
    })];
  };

  const tiles = (a, b, across, up, mean, sd) => {
    const z = turn(mean), s = turn(sd), most = limit(z);
    const small = across.length <= 6 && up.length <= 8;
    return [
      [{
        x: across.map((v, k) => k), y: up.map((v, k) => k), z, type: "heatmap", colorscale: OAK.diverging(),
        zmin: -most, zmax: most, xgap: 2, ygap: 2,
        customdata: z.map((line, r) => line.map((m, c) => `${safe(say(a, across[c]))} and ${safe(say(b, up[r]))}: ${described(m, s[r][c])}`)),
        hovertemplate: "%{customdata}<extra></extra>",
        text: small ? z.map((line) => line.map((m) => signed(m))) : undefined,
        texttemplate: small ? "%{text}" : undefined,
        colorbar: { thickness: 10, outlinewidth: 0, tickfont: { size: 10 } },
      }],
      layout({ xaxis: ticks(a, across, a.name), yaxis: ticks(b, up, b.name) }),
    ];
  };

  const pair = (i, j, left, right, mean, sd, effect) => {
    const a = data.features[i], b = data.features[j];
    if (a.kind === "levels" && b.kind === "levels") return tiles(a, b, left, right, mean, sd);
    if (a.kind !== "levels" && b.kind !== "levels") return surface(a, b, left, right, mean, sd);
    if (a.kind === "levels") return lines(b, a, right, left, turn(mean), turn(sd), effect);
    return lines(a, b, left, right, mean, sd, effect);
  };

  const picture = (component, effect, k) => {
    const { term, slices } = component;
    if (slices) {
      const [left, right] = slices.grids.map((grid) => Array.from(grid)), slice = slices.slices[k];
      const rows = (flat) => left.map((v, r) => Array.from(flat.slice(r * right.length, (r + 1) * right.length)));
      return pair(slices.pair[0], slices.pair[1], left, right, rows(slice.mean), rows(slice.sd), effect);
    }
    const features = term.map((i) => data.features[i]);
    if (term.length === 2) {
      const mixed = features[0].kind !== features[1].kind;
      const grids = features.map((f) => spots(f, mixed ? 8 : MOST, mixed ? 1 : 3));
      const { mean, sd } = OAK.over(component, grids);
      return pair(term[0], term[1], ...grids, mean, sd, effect);
    }
    const draw = features[0].kind === "levels" ? levels : curve;
    return draw(features[0], component, effect);
  };

  // The same numbers as a table, for keyboards and screen readers.
  const values = (component) => {
    const features = component.term.map((i) => data.features[i]);
    const few = (feature, most) => {
      const all = spots(feature, 60);
      if (feature.kind === "levels") return all;
      const step = Math.max(1, Math.ceil(all.length / most));
      return [...all.filter((v, k) => k % step === 0), ...(feature.missing ? [null] : [])];
    };
    const cell = (text, head, n) => make(head ? "th" : "td", { class: n ? "n" : null, scope: head || null }, text);
    const body = make("tbody"), head = make("tr");
    const rows = few(features[0], features.length === 1 ? 12 : 8);
    if (features.length === 1) {
      const { mean, sd } = OAK.over(component, [rows]);
      head.append(cell(features[0].name, "col"), cell("effect", "col", true), cell("± 2 deviations", "col", true));
      rows.forEach((v, k) => body.append(make("tr", {}, cell(say(features[0], v), "row"), cell(signed(mean[k]), null, true), cell(number(BAND * sd[k], 3), null, true))));
    } else {
      const columns = few(features[1], 6), { mean } = OAK.over(component, [rows, columns]);
      head.append(cell(`${features[0].name} \\ ${features[1].name}`, "col"), ...columns.map((c) => cell(say(features[1], c), "col", true)));
      rows.forEach((v, k) => body.append(make("tr", {}, cell(say(features[0], v), "row"), ...mean[k].map((m) => cell(signed(m), null, true)))));
    }
    return make("div", { class: "scroll" }, make("table", {}, make("thead", {}, head), body));
  };

  const card = (component, output) => {
    const parts = [make("h3", {}, component.label)];
    if (component.share !== null) {
      const interval = component.low === null ? "" : ` (90% interval ${percent(component.low)} to ${percent(component.high)})`;
      parts.push(make("p", { class: "share" }, `${percent(component.share)} of the variance${interval}`));
    }
    if (component.edited) parts.push(make("p", {}, make("strong", {}, `Edited by hand: ${component.edited}.`)));
    if (component.words) parts.push(make("p", {}, component.words));
    if (!component.table && !component.slices) {
      parts.push(make("p", { class: "note" }, "Not drawn: too many features or levels."));
      return make("article", { class: "card" }, ...parts);
    }
    const node = make("div", { class: "chart", role: "img", "aria-label": `${component.label}. ${component.words || "a component of three features, at values of one of them"}` });
    let slice = 0;
    if (component.slices) {
      const { slices } = component.slices, third = data.features[component.slices.third].name;
      const select = make("select", { "aria-label": `value of ${third}` });
      slices.forEach((s, k) => select.append(make("option", { value: k }, `${third} = ${s.label}`)));
      slice = Math.floor(slices.length / 2);
      select.value = slice;
      select.addEventListener("change", () => {
        slice = Number(select.value);
        OAK.chart(node, () => picture(component, output.effect, slice));
      });
      parts.push(select);
    }
    parts.push(node);
    chart(node, () => picture(component, output.effect, slice));
    if (component.table) {
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
