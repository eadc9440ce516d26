// Rows to question: what the model says, of what that is made, and what if a value were another.
(() => {
  const { data, byId, make, chart, layout, axis, colour, number, signed, percent, safe, short } = OAK;
  if (!data.rows.length || !data.features.length) return;
  const classes = data.joint ? data.outputs.map((o) => o.name) : null;
  const share = ["logit", "probit", "softmax"].includes(data.link);
  const say = (value) => (share ? percent(value) : number(value));
  const BARS = 11;

  let row = data.rows[0], values = [...row.values], output = 0;

  const headline = (response) => (classes ? response[output] : response[0]);
  const what = () =>
    classes ? `probability of “${classes[output]}”`
      : share && data.outputs[0].name !== "" ? `probability of “${data.outputs[0].name}”` : "expected response";

  // The waterfall: from the average to the row's value, largest contributions first.
  const waterfall = (moments) => () => {
    const { components, constant, effect } = data.outputs[output];
    const parts = components
      .map((c, k) => ({ label: c.label, mean: moments.means[k], sd: moments.sds[k] }))
      .sort((a, b) => Math.abs(b.mean) - Math.abs(a.mean));
    const top = parts.slice(0, BARS);
    const listed = top.reduce((sum, p) => sum + p.mean, 0);
    const rest = moments.mean - constant - listed;
    const steps = [...top, { label: "all other terms", mean: rest, sd: 0 }];
    const names = ["average", ...steps.map((s) => s.label), "this row"];
    const at = names.map((n, k) => names.length - 1 - k);
    let sum = constant;
    const base = [], size = [], shade = [], text = [];
    for (const s of steps) {
      base.push(sum);
      size.push(s.mean);
      shade.push(s.mean >= 0 ? colour("up") : colour("down"));
      text.push(signed(s.mean));
      sum += s.mean;
    }
    const limit = innerWidth < 600 ? 16 : 30;
    return [
      [
        {
          type: "bar", orientation: "h", y: at.slice(1, -1), x: size, base, marker: { color: shade, opacity: 0.85 },
          text, textposition: "none",
          error_x: { type: "data", array: steps.map((s) => 2 * s.sd), color: colour("soft"), thickness: 1.2, width: 3 },
          customdata: steps.map((s) => `${safe(s.label)}: ${signed(s.mean)}` + (s.sd > 0 ? ` ± ${number(2 * s.sd, 3)}` : "")),
          hovertemplate: "%{customdata}<extra></extra>",
        },
        {
          x: [constant, moments.mean], y: [at[0], 0], mode: "markers", marker: { symbol: "diamond", size: 11, color: colour("ink") },
          error_x: { type: "data", array: [0, 2 * Math.sqrt(moments.variance)], color: colour("ink"), thickness: 1.2, width: 4 },
          customdata: [`average: ${number(constant)}`, `this row: ${number(moments.mean)} ± ${number(2 * Math.sqrt(moments.variance), 3)}`],
          hovertemplate: "%{customdata}<extra></extra>",
        },
      ],
      layout({
        bargap: 0.3,
        xaxis: axis(effect.replace("effect on the ", ""), { zeroline: false }),
        yaxis: axis("", {
          tickvals: at, range: [-0.7, names.length - 0.3], showgrid: false, zeroline: false,
          ticktext: names.map((n, k) => short(n, limit) + (k > 0 && k < names.length - 1 ? `  ${text[k - 1]}` : "")),
        }),
      }),
    ];
  };

  const table = (moments) => {
    const { components } = data.outputs[output];
    const body = make("tbody");
    components
      .map((c, k) => ({ c, mean: moments.means[k], sd: moments.sds[k] }))
      .sort((a, b) => Math.abs(b.mean) - Math.abs(a.mean))
      .forEach(({ c, mean, sd }) => body.append(make("tr", {},
        make("th", { scope: "row" }, c.label),
        make("td", {}, c.term.map((i) => shownValue(i)).join(", ")),
        make("td", { class: "n" }, signed(mean)),
        make("td", { class: "n" }, number(2 * sd, 3)))));
    const head = make("tr", {}, ...["term", "values", "contribution", "± 2 deviations"].map((t, k) => make("th", { scope: "col", class: k > 1 ? "n" : null }, t)));
    byId("contributions").replaceChildren(make("thead", {}, head), body);
  };
  const shownValue = (i) => {
    const value = values[i], feature = data.features[i];
    if (value === row.values[i]) return row.texts[i];
    if (value === null) return "missing";
    if (feature.kind === "levels") return value < 0 ? "not seen in training" : feature.labels[value];
    return number(value, 6);
  };

  const update = () => {
    const moments = data.outputs.map((o, k) => OAK.latent(k, row, values));
    const changed = values.some((v, i) => v !== row.values[i]);
    const response = changed ? OAK.respond(moments) : row.response;
    const answer = byId("answer");
    answer.dataset.value = headline(response);
    answer.dataset.latent = moments[output].mean;
    const parts = [make("span", {}, `${row.name}: ${what()} `), make("strong", {}, say(headline(response)))];
    if (changed) parts.push(make("span", {}, ` in place of ${say(headline(row.response))}`));
    else if (row.interval) parts.push(make("span", {}, `, 90% interval ${number(row.interval[0])} to ${number(row.interval[1])}`));
    if (!changed && row.observed !== null) {
      parts.push(make("span", {}, `; observed ${typeof row.observed === "number" ? number(row.observed) : row.observed}`));
    }
    answer.replaceChildren(...parts);
    byId("reset").disabled = !changed;
    chart(byId("waterfall"), waterfall(moments[output]));
    byId("waterfall").setAttribute("aria-label", `Contributions to ${row.name}; the same as a table below`);
    table(moments[output]);
    data.features.forEach((f, i) => {
      const box = byId(`whatif-${i}`);
      if (box) box.classList.toggle("changed", values[i] !== row.values[i]);
    });
  };
  const change = (i, value) => {
    values[i] = value;
    update();
  };

  const levelControl = (feature, i, id) => {
    const select = make("select", { id, "aria-label": feature.name });
    feature.labels.forEach((label, k) => select.append(make("option", { value: k }, label)));
    if (feature.missing || values[i] === null) select.append(make("option", { value: "missing" }, "missing"));
    select.append(make("option", { value: -1 }, "(not seen in training)"));
    select.value = values[i] === null ? "missing" : String(values[i]);
    select.addEventListener("change", () => change(i, select.value === "missing" ? null : Number(select.value)));
    return [select];
  };
  const numberControl = (feature, i, id) => {
    const at = values[i], span = feature.high - feature.low;
    const low = at === null ? feature.low : Math.min(feature.low, at);
    const high = at === null ? feature.high : Math.max(feature.high, at);
    const step = feature.whole ? 1 : "any";
    const slider = make("input", { type: "range", id, min: low, max: high, step: feature.whole ? 1 : span / 500, "aria-label": feature.name });
    const field = make("input", { type: "number", step, "aria-label": `${feature.name}, as a number` });
    const tidy = (v) => (feature.whole ? v : Number(v.toPrecision(5)));
    slider.value = at === null ? (low + high) / 2 : at;
    field.value = at === null ? "" : tidy(at);
    slider.addEventListener("input", () => {
      field.value = tidy(Number(slider.value));
      if (box) box.checked = false;
      change(i, Number(slider.value));
    });
    field.addEventListener("input", () => {
      const value = field.valueAsNumber;
      if (!Number.isFinite(value)) return;
      slider.value = value;
      if (box) box.checked = false;
      change(i, value);
    });
    const parts = [make("div", { class: "pair" }, slider, field)];
    let box = null;
    if (feature.missing || at === null) {
      box = make("input", { type: "checkbox" });
      box.checked = at === null;
      box.addEventListener("change", () => change(i, box.checked ? null : Number(slider.value)));
      parts.push(make("label", { class: "note" }, box, " missing"));
    }
    return parts;
  };

  const FEW = 8;
  const order = data.features.map((f, i) => i);
  if (data.importance) order.sort((a, b) => data.importance.features[b].total - data.importance.features[a].total);
  const controls = () => {
    const all = byId("all-features").getAttribute("aria-pressed") === "true";
    const shown = all ? order : order.slice(0, FEW);
    byId("controls").replaceChildren(...shown.map((i) => {
      const feature = data.features[i];
      const parts = feature.kind === "levels" ? levelControl(feature, i, `value-${i}`) : numberControl(feature, i, `value-${i}`);
      return make("fieldset", { id: `whatif-${i}` }, make("legend", {}, feature.name), ...parts);
    }));
    byId("all-features").hidden = order.length <= FEW;
  };

  const select = (k) => {
    row = data.rows[k];
    values = [...row.values];
    document.querySelectorAll("#row-list button").forEach((button) => {
      const now = Number(button.dataset.row) === k;
      button.setAttribute("aria-pressed", String(now));
      button.closest("tr").classList.toggle("now", now);
    });
    controls();
    update();
  };
  document.querySelectorAll("#row-list button").forEach((button) =>
    button.addEventListener("click", () => select(Number(button.dataset.row))));
  byId("reset").addEventListener("click", () => {
    values = [...row.values];
    controls();
    update();
    byId("answer").focus();
  });
  byId("all-features").addEventListener("click", (event) => {
    const pressed = event.currentTarget.getAttribute("aria-pressed") === "true";
    event.currentTarget.setAttribute("aria-pressed", String(!pressed));
    controls();
    update();
  });
  const outputs = byId("row-output");
  if (outputs) outputs.addEventListener("change", () => { output = Number(outputs.value); update(); });
  select(0);
})();
