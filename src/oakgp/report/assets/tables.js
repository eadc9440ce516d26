// Components from their tables: coefficients of cubic splines along the scales of the features.
(() => {
  const { data } = OAK;

  // Where a number stands on a scale, from 0 to 1: cycles undone and tails drawn in first.
  const position = (scale, value) => {
    let x = value;
    const { period, lower, upper, knots, positions } = scale;
    if (period !== null) x -= period * Math.floor(x / period);
    else if (upper && x > upper[0]) x = upper[0] + upper[1] * Math.log1p((x - upper[0]) / upper[1]);
    else if (lower && x < lower[0]) x = lower[0] - lower[1] * Math.log1p((lower[0] - x) / lower[1]);
    const last = knots.length - 1;
    if (x <= knots[0]) return positions[0];
    if (x >= knots[last]) return positions[last];
    let low = 0, high = last;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (knots[middle] <= x) low = middle;
      else high = middle;
    }
    const t = (x - knots[low]) / (knots[high] - knots[low]);
    return (1 - t) * positions[low] + t * positions[high];
  };

  // The coefficients that count at a value, and their weights. null is "missing".
  const weights = (feature, scale, count, value) => {
    if (feature.kind === "levels") {
      const levels = feature.labels.length;
      return [[value === null ? levels : value < 0 || value >= levels ? levels + 1 : value, 1]];
    }
    if (value === null) return [[count + 2, 1]];
    const place = position(scale, value) * (count - 1);
    const cell = Math.min(Math.floor(place), count - 2);
    const t = place - cell, s = 1 - t;
    return [
      [cell, (s * s * s) / 6],
      [cell + 1, (4 - 3 * t * t * (1 + s)) / 6],
      [cell + 2, (4 - 3 * s * s * (1 + t)) / 6],
      [cell + 3, (t * t * t) / 6],
    ];
  };
  const width = (feature, count) => (count === null ? feature.labels.length + 2 : count + 3);

  // One kind of table ("mean" or "sd") over a grid: values of the first feature by those of the second.
  const over = (component, kind, grids) => {
    const { term, table, scales } = component;
    const counts = kind === "mean" ? table.counts : table.sd_counts, numbers = table[kind];
    const at = term.map((i, k) => grids[k].map((v) => weights(data.features[i], scales[k], counts[k], v)));
    const tidy = (v) => (kind === "sd" ? Math.max(0, v) : v);
    if (term.length === 1) {
      return at[0].map((w) => tidy(w.reduce((sum, [a, p]) => sum + p * numbers[a], 0)));
    }
    const stride = width(data.features[term[1]], counts[1]);
    return at[0].map((left) => at[1].map((right) => {
      let sum = 0;
      for (const [a, p] of left) for (const [b, q] of right) sum += p * q * numbers[a * stride + b];
      return tidy(sum);
    }));
  };
  OAK.over = (component, grids) => {
    const lists = grids.map((grid) => Array.from(grid));
    return { mean: over(component, "mean", lists), sd: over(component, "sd", lists) };
  };

  // Mean and deviation of a component at a row of values.
  OAK.contribution = (component, values) => {
    const { mean, sd } = OAK.over(component, component.term.map((i) => [values[i]]));
    return component.term.length === 1 ? [mean[0], sd[0]] : [mean[0][0], sd[0][0]];
  };
})();
