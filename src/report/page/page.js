// Draws the charts of a report from the data in the page. dygraphs does the plotting; this script
// selects what a chart shows, converts the horizontal axis, and marks events.
(() => {
  'use strict';
  const data = JSON.parse(document.getElementById('data').textContent);
  const runs = data.runs;
  const several = runs.length > 1;
  const KINDS = {checkpoint: 'checkpoint', restart: 'restart', warning: 'warning', error: 'error', stop: 'stop'};
  const DASHES = [null, [6, 3], [2, 2], [8, 3, 2, 3]];

  // One entry per chart; `keys` are series of a run, with the label of each. With `per`, there is one
  // chart for each unit that the runs have: those of a comparison may count tokens or pairs.
  const CHARTS = [
    {group: 'loss', title: 'Training loss', per: 'loss_unit', y: unit => `loss (${unit})`, keys: {loss: ''}},
    {group: 'loss', title: 'Training loss by dataset', per: 'loss_unit', y: unit => `loss (${unit})`, curves: 'source'},
    {group: 'loss', title: 'Validation loss', per: 'loss_unit', y: unit => `loss (${unit})`, curves: 'validation'},
    {group: 'loss', title: 'Validation bits per byte', y: 'bits per byte of text', curves: 'bits_per_byte'},
    {group: 'loss', title: 'Evaluation tasks', y: 'value of the metric', curves: 'task'},
    {group: 'loss', title: 'z-loss', per: 'loss_unit', y: unit => `loss (${unit})`, keys: {z_loss: ''}},
    {group: 'preferences', title: 'Rewards', y: 'reward', keys: {rewards_chosen: 'chosen', rewards_rejected: 'rejected'}},
    {group: 'preferences', title: 'Margin', y: 'reward of chosen − of rejected', keys: {rewards_margins: ''}},
    {group: 'preferences', title: 'Accuracy', y: '% of the pairs', keys: {rewards_accuracies: ''}, zero: true},
    {group: 'preferences', title: 'Log-probabilities of the answers', y: 'ln p, sum over the tokens', keys: {logps_chosen: 'chosen', logps_rejected: 'rejected'}},
    {group: 'preferences', title: 'Divergence from the reference model', y: 'z (nats per example)', keys: {kl: ''}},
    {group: 'preferences', title: 'Cross-entropy of the chosen answers', y: 'loss (nats per token)', keys: {nll_loss: ''}},
    {group: 'optimization', title: 'Gradient norm before clipping', y: 'norm', keys: {grad_norm: ''}, spread: 30},
    {group: 'optimization', title: 'Learning rate', y: 'learning rate', keys: {learning_rate: ''}},
    {group: 'optimization', title: 'Gradient-noise scale', y: 'sequences', keys: {noise_scale: ''}},
    {group: 'optimization', title: 'Loss scale', y: 'scale', keys: {loss_scale: ''}, log: true},
    {group: 'experts', title: 'Load of the busiest expert', y: 'its load ÷ mean', keys: {busiest_expert: ''}},
    {group: 'experts', title: 'Entropy of the experts’ loads', y: 'entropy ÷ that of even loads', keys: {load_entropy: ''}},
    {group: 'experts', title: 'Dropped pairs of a token and an expert', y: '% of the pairs', keys: {dropped_share: ''}, zero: true},
    {group: 'experts', title: 'Losses of the routers', per: 'loss_unit', y: unit => `loss (${unit})`, keys: {router_loss: ''}},
    {group: 'speed', title: unit => `${capital(unit)} per second`, per: 'count', y: unit => `${unit} per second`, keys: {tokens_per_s: ''}, zero: true},
    {group: 'speed', title: 'Share of the matrix rate', y: 'model FLOPs, % of the rate', keys: {flops_share: ''}, zero: true},
    {group: 'speed', title: 'Waiting for data', y: '% of the step', keys: {data_share: ''}, zero: true},
    {group: 'communication', title: 'Communication', y: '% of the step', keys: {exposed_share: 'exposed', hidden_share: 'hidden'}, zero: true},
    {group: 'communication', title: 'Pipeline bubble', y: '% of all ranks’ time', keys: {bubble_share: ''}, zero: true},
    {group: 'communication', title: 'Slowest rank', y: 'its time ÷ mean', keys: {slowest: ''}},
    {group: 'memory', title: 'Resident memory of rank 0', y: unit => unit, keys: {resident_bytes: ''}, bytes: true, zero: true},
  ];

  function faint(hex) {
    const part = i => parseInt(hex.slice(i, i + 2), 16);
    return `rgba(${part(1)},${part(3)},${part(5)},0.25)`;
  }

  function capital(text) {
    return text[0].toUpperCase() + text.slice(1);
  }

  // The values of a key that the runs have, in the order of the runs.
  function unitsOf(key) {
    return [...new Set(runs.map(run => run[key]))];
  }

  // The largest value of the runs' lists.
  function mostOf(listOf) {
    return runs.reduce((most, run) => listOf(run).reduce((a, b) => Math.max(a, b), most), 0);
  }

  // The charts of an entry of CHARTS: one, or one for each unit.
  function chartsOf(def) {
    const textOf = (text, unit) => typeof text === 'function' ? text(unit) : text;
    if (def.bytes) {
      const key = Object.keys(def.keys)[0], unit = byteUnit(mostOf(run => run.series[key]?.y ?? []));
      return [{...def, y: textOf(def.y, unit.name), size: unit.size}];
    }
    if (!def.per) return [def];
    return unitsOf(def.per).map(unit => ({...def, title: textOf(def.title, unit), y: textOf(def.y, unit),
      has: run => run[def.per] === unit}));
  }

  // ---- The horizontal axis

  const AXES = {step: 'step', tokens: unitsOf('count').join(' or '), time: ''};
  let axis = 'step';

  // Training time has the unit that suits the longest run.
  function chooseTimeUnit() {
    const unit = timeUnit(mostOf(run => run.map.seconds));
    AXES.time = `training time (${unit.name})`;
    for (const run of runs) run.map.time = run.map.seconds.map(s => s / unit.size);
  }

  // The index of the last entry <= v in a rising list, or -1.
  function position(list, v) {
    let low = 0, high = list.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (list[middle] <= v) low = middle + 1; else high = middle;
    }
    return low - 1;
  }

  // Converts a step of a run to the axis by linear interpolation in its table.
  function toAxis(run, step) {
    if (axis === 'step') return step;
    const steps = run.map.step, values = run.map[axis];
    if (!steps.length) return NaN;
    const i = position(steps, step);
    if (i < 0) return values[0] * step / steps[0];
    if (i + 1 >= steps.length) return values[i];
    return values[i] + (values[i + 1] - values[i]) * (step - steps[i]) / (steps[i + 1] - steps[i]);
  }

  // ---- The lines of a chart

  function linesOf(chart) {
    const lines = [];
    const add = (run, label, series, index) => {
      const shade = several ? run.index : index;
      const name = [several ? run.name : '', label].filter(Boolean).join(' ') || run.name;
      const common = {run, name, x: series.x, shade: 'run-' + shade % 6, dash: several ? DASHES[index % DASHES.length] : null};
      const size = chart.size ?? 1, inUnit = values => size === 1 ? values : values.map(v => v === null ? null : v / size);
      const smooth = series.s;
      if (!smooth) { lines.push({...common, y: inUnit(series.y), shown: true}); return; }
      if (!several) lines.push({...common, y: inUnit(series.y), raw: true});
      lines.push({...common, y: inUnit(smooth), shown: true});
    };
    for (const run of runs) {
      if (chart.has && !chart.has(run)) continue;
      const keys = Object.entries(chart.keys ?? {});
      keys.forEach(([key, label], i) => {
        if (run.series[key]) add(run, label || (validated(run, key) ? 'training' : ''), run.series[key], i);
      });
      let next = keys.length;
      for (const [key, label] of keys)
        for (const c of run.curves)
          if (c.figure === key) add(run, `${label} ${c.name}`.trim(), c, next++);
      if (chart.curves) run.curves.filter(c => c.kind === chart.curves).forEach((c, i) => add(run, c.name, c, i));
    }
    uncover(lines);
    return lines;
  }

  // A line that equals others before it has gaps in which those are visible, and each has its own.
  function uncover(lines) {
    const equals = new Map();
    for (const line of lines.filter(l => l.shown)) {
      const key = JSON.stringify([line.x, line.y]), before = equals.get(key) ?? 0;
      equals.set(key, before + 1);
      if (before) line.dash = [7, 7 * before];
    }
  }

  // Lines of later runs are thinner, so that one that nearly equals them stays visible below.
  function widthOf(line) {
    if (line.raw) return 1;
    return several ? 1.5 + 1.5 * (1 - line.run.index / (runs.length - 1)) : 2;
  }

  // Whether a figure of the training steps was also measured in validation.
  function validated(run, key) {
    return run.curves.some(c => c.figure === key);
  }

  // Rows [x, y of each line] on the union of the lines' steps.
  function rowsOf(lines) {
    const rows = new Map();
    lines.forEach((line, column) => {
      line.at = line.x.map(step => toAxis(line.run, step));
      line.at.forEach((x, i) => {
        if (!rows.has(x)) rows.set(x, [x, ...lines.map(() => null)]);
        rows.get(x)[column + 1] = line.y[i];
      });
    });
    return [...rows.values()].filter(row => Number.isFinite(row[0])).sort((a, b) => a[0] - b[0]);
  }

  // ---- Events

  function drawMarks(canvas, area, graph) {
    for (const run of runs) {
      let last = -10;
      for (const [kind, step] of run.events) {
        // An event before the first step is marked at it: a chart begins there.
        const x = Math.round(graph.toDomXCoord(toAxis(run, Math.max(step, run.map.step[0] ?? 0)))) + 0.5;
        if (!(x >= area.x && x <= area.x + area.w)) continue;
        if (kind === KINDS.checkpoint) {
          if (several || x - last < 3) continue;
          last = x;
        }
        drawMark(canvas, kind, x, area.y, area.y + area.h, several ? color('run-' + run.index % 6) : color('muted'));
      }
    }
  }

  function drawMark(canvas, kind, x, top, bottom, own) {
    canvas.save();
    canvas.lineWidth = 1;
    canvas.strokeStyle = canvas.fillStyle = kind === 'error' ? color('bad') : kind === 'warning' ? color('warn') : own;
    canvas.beginPath();
    if (kind === 'checkpoint') {
      canvas.moveTo(x, bottom - 6);
      canvas.lineTo(x, bottom);
      canvas.stroke();
    } else if (kind === 'warning') {
      canvas.moveTo(x, top + 8);
      canvas.lineTo(x - 5, top);
      canvas.lineTo(x + 5, top);
      canvas.fill();
    } else {
      canvas.setLineDash(kind === 'restart' ? [5, 4] : []);
      canvas.moveTo(x, top);
      canvas.lineTo(x, bottom);
      canvas.stroke();
    }
    canvas.restore();
  }

  // The legend of the marks that occur.
  function explainMarks() {
    const used = new Set(runs.flatMap(run => run.events.map(([kind]) => kind)));
    if (several) used.delete(KINDS.checkpoint);
    const shapes = {
      checkpoint: '<path d="M8 8v6" stroke="currentColor"/>', restart: '<path d="M8 0v14" stroke="currentColor" stroke-dasharray="4 3"/>',
      warning: '<path d="M8 11L3 3h10z" fill="var(--warn)"/>', error: '<path d="M8 0v14" stroke="var(--bad)"/>',
      stop: '<path d="M8 0v14" stroke="currentColor"/>',
    };
    document.getElementById('marks').innerHTML = Object.keys(KINDS).filter(kind => used.has(kind))
      .map(kind => `<span><svg width="16" height="14">${shapes[kind]}</svg>${kind}</span>`).join('');
  }

  // ---- Charts

  const graphs = [];
  let syncing = false;

  function sameRange(from) {
    if (syncing) return;
    syncing = true;
    const range = from.xAxisRange();
    for (const {graph} of graphs)
      if (graph && graph !== from) graph.updateOptions({dateWindow: range});
    syncing = false;
  }

  function showLegend(chart, x) {
    chart.legend.replaceChildren();
    if (x !== undefined)
      chart.legend.append(withText(document.createElement('span'), `${AXES[axis]} ${amount(x)}  `));
    for (const line of chart.lines) {
      if (!line.shown) continue;
      const entry = document.createElement('span');
      entry.className = 'entry';
      const key = document.createElement('span');
      key.className = 'key';
      key.style.borderColor = color(line.shade);
      if (line.dash) key.style.borderTopStyle = 'dashed';
      const i = x === undefined ? -1 : position(line.at, x);
      entry.append(key, i < 0 ? line.name : `${line.name} ${amount(line.y[i])}`);
      chart.legend.append(entry);
    }
  }

  function optionsOf(chart) {
    const names = chart.lines.map((line, i) => 'line ' + i);
    return {
      labels: ['x', ...names],
      colors: chart.lines.map(line => line.raw ? faint(color(line.shade)) : color(line.shade)),
      series: Object.fromEntries(chart.lines.map((line, i) => [names[i], {
        strokeWidth: widthOf(line), strokePattern: line.dash, highlightCircleSize: line.raw ? 0 : 3,
        drawPoints: line.x.length < 25, pointSize: 2,
      }])),
      xlabel: AXES[axis], ylabel: chart.def.y, logscale: chart.log,
      gridLineColor: color('grid'), axisLineColor: color('line'),
    };
  }

  function makeChart(def) {
    const lines = linesOf(def);
    if (!lines.some(line => line.y.some(v => v))) return;
    const box = document.createElement('div');
    box.className = 'chart';
    const head = document.createElement('div');
    head.className = 'chart-head';
    head.append(withText(document.createElement('h3'), def.title));
    let low = Infinity, high = -Infinity;
    for (const line of lines)
      for (const v of line.y) {
        if (v === null) continue;
        low = Math.min(low, v);
        high = Math.max(high, v);
      }
    const chart = {def, lines, legend: document.createElement('div')};
    chart.log = low > 0 && (def.log || (def.spread > 0 && high > def.spread * low));
    if (low > 0) {
      const label = document.createElement('label'), check = document.createElement('input');
      check.type = 'checkbox';
      check.checked = chart.log;
      check.addEventListener('change', () => { chart.log = check.checked; chart.graph.updateOptions({logscale: chart.log, valueRange: rangeOf(chart)}); });
      label.append(check, ' log');
      head.append(label);
    }
    chart.legend.className = 'legend';
    const plot = document.createElement('div');
    plot.className = 'plot';
    box.append(head, chart.legend, plot);
    document.querySelector(`#charts-${def.group} .charts`).append(box);
    chart.top = high;
    chart.graph = new Dygraph(plot, rowsOf(lines), {
      ...optionsOf(chart), connectSeparatedPoints: true, legend: 'never', rightGap: 10, valueRange: rangeOf(chart),
      xLabelHeight: 18, yLabelWidth: 18,
      axes: LABELS,
      underlayCallback: drawMarks,
      drawCallback: (graph, initial) => { if (!initial) sameRange(graph); },
      highlightCallback: (event, x) => showLegend(chart, x),
      unhighlightCallback: () => showLegend(chart),
    });
    showLegend(chart);
    graphs.push(chart);
  }

  function rangeOf(chart) {
    return chart.def.zero && !chart.log ? [0, chart.top > 0 ? chart.top * 1.08 : 1] : null;
  }

  function showAll() {
    const range = fullRange();
    refresh(() => ({dateWindow: range}));
  }

  function refresh(options) {
    syncing = true;
    graphs.forEach((chart, i) => {
      chart.graph.updateOptions({...optionsOf(chart), ...options(chart, i)});
      showLegend(chart);
    });
    syncing = false;
  }

  // The range of all charts together, so that they have the same axis.
  function fullRange() {
    let low = Infinity, high = -Infinity;
    for (const line of graphs.flatMap(chart => chart.lines)) {
      if (!line.at.length) continue;
      low = Math.min(low, line.at[0]);
      high = Math.max(high, line.at[line.at.length - 1]);
    }
    const margin = 0.01 * (high - low);
    return low < high ? [low - margin, high + margin] : null;
  }

  for (const [index, run] of runs.entries()) run.index = index;
  chooseTimeUnit();
  document.querySelector('#axis option[value=tokens]').textContent = AXES.tokens;
  CHARTS.flatMap(chartsOf).forEach(makeChart);
  showAll();
  for (const section of document.querySelectorAll('section[id^=charts-]'))
    if (!section.querySelector('.chart, table')) section.remove();
  if (graphs.length) document.getElementById('tools').hidden = false;
  explainMarks();
  document.getElementById('axis').addEventListener('change', event => {
    axis = event.target.value;
    const rows = graphs.map(chart => rowsOf(chart.lines)), range = fullRange();
    refresh((chart, i) => ({file: rows[i], dateWindow: range}));
  });
  document.getElementById('reset').addEventListener('click', showAll);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => refresh(() => ({})));
  addEventListener('resize', scaleForPaper);
  scaleForPaper();
  document.documentElement.dataset.charts = graphs.length;
})();
