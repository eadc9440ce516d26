// How good the model is, and what matters.
(() => {
  const { data, byId, chart, layout, axis, colour, number, percent, safe, short } = OAK;

  const quality = data.quality;
  if (quality && quality.scatter) {
    const { predicted, observed, rows } = quality.scatter;
    const all = [...predicted, ...observed];
    const ends = [Math.min(...all), Math.max(...all)];
    chart(byId("scatter"), () => [
      [
        { x: ends, y: ends, mode: "lines", line: { color: colour("soft"), dash: "dot", width: 1 }, hoverinfo: "skip" },
        {
          x: predicted, y: observed, mode: "markers", type: "scatter",
          marker: { color: colour("accent"), size: 5, opacity: 0.55 },
          customdata: rows.map((r, k) => `row ${r}: predicted ${number(predicted[k])}, came ${number(observed[k])}`),
          hovertemplate: "%{customdata}<extra></extra>",
        },
      ],
      layout({ xaxis: axis("predicted"), yaxis: axis("observed") }),
    ]);
  }
  if (quality && quality.histogram) {
    const { edges, hit, other } = quality.histogram;
    const x = edges.slice(1).map((e, k) => (e + edges[k]) / 2);
    const bar = (y, name, shade) => ({
      x, y, type: "bar", name, marker: { color: shade }, hovertemplate: `%{y} rows ${name}<extra></extra>`,
    });
    chart(byId("scatter"), () => [
      [bar(hit, "where it came", colour("down")), bar(other, "where it did not", colour("up"))],
      layout({
        barmode: "stack", showlegend: true, legend: { orientation: "h", y: 1.12, x: 0 },
        xaxis: axis(safe(quality.about), { range: [0, 1] }), yaxis: axis("rows"), bargap: 0.05,
      }),
    ]);
  }
  if (quality) {
    const { promised, seen, low, high, counts } = quality.reliability;
    const covers = quality.kind === "numbers";
    chart(byId("reliability"), () => [
      [
        { x: [0, 1], y: [0, 1], mode: "lines", line: { color: colour("soft"), dash: "dot", width: 1 }, hoverinfo: "skip" },
        {
          x: promised, y: seen, mode: "lines+markers", line: { color: colour("accent"), width: 2 },
          marker: { size: 7 },
          error_y: {
            type: "data", symmetric: false, thickness: 1.2, width: 3, color: colour("accent"),
            array: high.map((h, k) => h - seen[k]), arrayminus: low.map((l, k) => seen[k] - l),
          },
          customdata: promised.map((p, k) => `promised ${percent(p)}, came ${percent(seen[k])} (${percent(low[k])} to ${percent(high[k])}) of ${counts[k]} rows`),
          hovertemplate: "%{customdata}<extra></extra>",
        },
      ],
      layout({
        xaxis: axis(covers ? "nominal coverage" : safe(quality.about), { range: [-0.03, 1.03], zeroline: false }),
        yaxis: axis(covers ? "observed coverage" : "observed share", { range: [-0.03, 1.03], zeroline: false }),
      }),
    ]);
  }

  const bars = (items) => {
    const names = items.map((t) => short(t.label, innerWidth < 600 ? 20 : 34)).reverse();
    const shown = [...items].reverse();
    const at = shown.map((t, k) => k);
    const mean = shown.map((t) => t.mean);
    return [
      [
        {
          y: at, x: shown.map((t) => t.share), type: "bar", orientation: "h",
          marker: { color: colour("accent"), opacity: 0.75 },
          customdata: shown.map((t) => `${safe(t.label)}: ${percent(t.share)} of the variance` + (t.low === null ? "" : `, 90% interval ${percent(t.low)} to ${percent(t.high)}`)),
          hovertemplate: "%{customdata}<extra></extra>",
        },
        {
          y: at, x: mean, mode: "markers", marker: { color: colour("ink"), size: 6 }, hoverinfo: "skip",
          error_x: {
            type: "data", symmetric: false, thickness: 1.3, width: 3, color: colour("ink"),
            array: shown.map((t, k) => Math.max(0, t.high - mean[k])),
            arrayminus: shown.map((t, k) => Math.max(0, mean[k] - t.low)),
          },
        },
      ],
      layout({
        bargap: 0.35,
        yaxis: axis("", { tickvals: at, ticktext: names, showgrid: false, zeroline: false, ticks: "" }),
        xaxis: axis("share of the variance", { tickformat: ".0%", rangemode: "tozero" }),
      }),
    ];
  };
  if (data.importance) {
    chart(byId("terms-chart"), () => bars(data.importance.terms.slice(0, 14)));
    chart(byId("features-chart"), () => {
      const items = [...data.importance.features]
        .sort((a, b) => b.total - a.total)
        .slice(0, 14)
        .map((f) => ({ label: f.feature, share: f.total, mean: f.mean_total, low: f.total_low, high: f.total_high }));
      return bars(items);
    });
  }
})();
