// The model's arithmetic on its tables: latent values and expected responses of changed rows.
(() => {
  const { data } = OAK;

  // Latent mean and variance of a changed row, and every component's contribution to it.
  OAK.latent = (k, row, values) => {
    const output = data.outputs[k], base = row.latent[k];
    const means = [...base.means], sds = [...base.sds];
    let shift = 0, before = 0, after = 0;
    output.components.forEach((component, c) => {
      if (!component.table) return;
      const [m0, s0] = OAK.contribution(component, row.values);
      const [m1, s1] = OAK.contribution(component, values);
      shift += m1 - m0;
      before += s0 * s0;
      after += s1 * s1;
      means[c] += m1 - m0;
      if (s0 > 0) sds[c] *= s1 / s0;
    });
    return { mean: base.mean + shift, variance: base.variance * (before > 0 ? after / before : 1), means, sds };
  };

  const logistic = (f) => 1 / (1 + Math.exp(-f));
  const error = (x) => {
    // The error function by its series, or the continued fraction of its complement.
    if (Math.abs(x) < 2.5) {
      let term = x, sum = x;
      for (let n = 1; n < 60; n++) {
        term *= (-x * x) / n;
        sum += term / (2 * n + 1);
      }
      return (2 / Math.sqrt(Math.PI)) * sum;
    }
    const z = Math.abs(x);
    let f = 0;
    for (let k = 60; k > 0; k--) f = k / 2 / (z + f);
    return Math.sign(x) * (1 - Math.exp(-z * z) / (Math.sqrt(Math.PI) * (z + f)));
  };
  const points = data.points ? OAK.unpack(data.points) : null;

  // The expected response of latent moments: one number, or each class's probability.
  OAK.respond = (moments) => {
    const { mean, variance } = moments[0];
    if (data.link === "log") return [Math.exp(Math.min(300, mean + variance / 2))];
    if (data.link === "probit") return [0.5 * (1 + error(mean / Math.sqrt(1 + variance) / Math.SQRT2))];
    if (data.link === "logit") {
      const [nodes, weights] = data.hermite, sd = Math.sqrt(variance);
      return [nodes.reduce((sum, z, k) => sum + weights[k] * logistic(mean + sd * z), 0)];
    }
    if (data.link === "softmax") {
      const n = moments.length, count = points.length / n, total = new Array(n).fill(0);
      for (let p = 0; p < count; p++) {
        const f = moments.map((m, k) => m.mean + Math.sqrt(m.variance) * points[p * n + k]);
        const top = Math.max(...f), e = f.map((v) => Math.exp(v - top));
        const sum = e.reduce((a, b) => a + b, 0);
        e.forEach((v, k) => { total[k] += v / sum / count; });
      }
      return total;
    }
    return [mean];
  };
})();
