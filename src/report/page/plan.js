// Draws the charts of a plan: memory by stage, and step time against memory of searched layouts.
(() => {
  'use strict';
  const data = JSON.parse(document.getElementById('data').textContent);
  const graphs = [];

  function addChart(place, title, rows, options) {
    const box = document.createElement('div'), head = document.createElement('div');
    const legend = document.createElement('div'), plot = document.createElement('div');
    box.className = 'chart';
    head.className = 'chart-head';
    head.append(withText(document.createElement('h3'), title));
    legend.className = 'legend';
    plot.className = 'plot';
    box.append(head, legend, plot);
    document.getElementById(place).append(box);
    const colored = () => ({...options(legend), gridLineColor: color('grid'), axisLineColor: color('line')});
    const graph = new Dygraph(plot, rows, {
      legend: 'never', rightGap: 10, xLabelHeight: 18, yLabelWidth: 18, ...colored(),
    });
    graphs.push({graph, colored});
  }

  function entry(name, shade, content) {
    const span = document.createElement('span'), key = document.createElement('span');
    span.className = 'entry';
    key.className = 'key';
    key.style.borderColor = color(shade);
    span.append(key, content === undefined ? name : `${name} ${content}`);
    return span;
  }

  // ---- Memory of each stage, as stacked bars

  function drawBars(event) {
    const canvas = event.drawingContext, bottom = event.dygraph.toDomYCoord(0);
    const width = Math.min(60, 0.7 * (event.dygraph.toDomXCoord(1) - event.dygraph.toDomXCoord(0)));
    canvas.fillStyle = event.color;
    for (const p of event.points)
      canvas.fillRect(p.canvasx - width / 2, p.canvasy, width, bottom - p.canvasy);
  }

  function drawLimit(limit) {
    return (canvas, area, graph) => {
      const y = Math.round(graph.toDomYCoord(limit)) + 0.5;
      canvas.save();
      canvas.strokeStyle = color('bad');
      canvas.setLineDash([6, 4]);
      canvas.beginPath();
      canvas.moveTo(area.x, y);
      canvas.lineTo(area.x + area.w, y);
      canvas.stroke();
      canvas.restore();
    };
  }

  function drawMemory({parts, usable}) {
    if (!parts.length) return;
    const stages = parts[0].bytes.map((_, stage) => stage);
    const sums = stages.map(stage => parts.reduce((sum, part) => sum + part.bytes[stage], 0));
    const unit = byteUnit(Math.max(usable, ...sums)), inUnit = bytes => bytes / unit.size;
    const shade = i => 'run-' + i % 6;
    const show = (legend, stage) => legend.replaceChildren(
      ...parts.map((part, i) => entry(part.name, shade(i), stage === undefined ? undefined : amount(inUnit(part.bytes[stage])))),
      entry('usable', 'bad', stage === undefined ? undefined : amount(inUnit(usable))));
    addChart('charts-memory', 'Memory of a rank', stages.map(s => [s, ...parts.map(part => inUnit(part.bytes[s]))]), legend => {
      show(legend);
      return {
        labels: ['stage', ...parts.map(part => part.name)], colors: parts.map((_, i) => color(shade(i))),
        stackedGraph: true, plotter: drawBars, underlayCallback: drawLimit(inUnit(usable)),
        xlabel: 'pipeline stage', ylabel: unit.name, dateWindow: [-0.6, stages.length - 0.4],
        valueRange: [0, 1.08 * inUnit(Math.max(usable, ...sums))], highlightCircleSize: 0,
        axes: {
          x: {axisLabelFormatter: v => Number.isInteger(v) ? String(v) : '', axisLabelWidth: 40},
          y: LABELS.y,
        },
        highlightCallback: (event, x) => show(legend, x), unhighlightCallback: () => show(legend),
      };
    });
  }

  // ---- Step time against memory of the simulated layouts

  function drawLayouts(layouts) {
    if (!layouts.length) return;
    const memory = byteUnit(Math.max(...layouts.map(l => l.bytes))), time = timeUnit(Math.max(...layouts.map(l => l.s)));
    const sorted = layouts.map(l => ({...l, memory: l.bytes / memory.size, time: l.s / time.size}))
      .sort((a, b) => a.memory - b.memory || b.time - a.time);
    const names = ['Pareto front', 'other layouts'];
    const show = (legend, row) => {
      const own = row === undefined ? null : sorted[row];
      legend.replaceChildren(entry(names[0], 'run-0'), entry(names[1], 'muted'));
      if (own) legend.append(`${own.text}: ${amount(own.time)} ${time.name}, ${amount(own.memory)} ${memory.name}`);
    };
    const range = (values, margin) => {
      const low = Math.min(...values), high = Math.max(...values), pad = margin * (high - low || high || 1);
      return [Math.max(0, low - pad), high + pad];
    };
    const rows = sorted.map(l => [l.memory, l.front ? l.time : null, l.front ? null : l.time]);
    addChart('charts-layouts', 'Step time and memory', rows, legend => {
      show(legend);
      return {
        labels: [memory.name, ...names], colors: [color('run-0'), color('muted')], connectSeparatedPoints: true,
        series: {
          [names[0]]: {strokeWidth: 2, drawPoints: true, pointSize: 4},
          [names[1]]: {strokeWidth: 0, drawPoints: true, pointSize: 3},
        },
        xlabel: `memory of the fullest rank (${memory.name})`, ylabel: `step time (${time.name})`, highlightCircleSize: 6,
        dateWindow: range(sorted.map(l => l.memory), 0.08), valueRange: range(sorted.map(l => l.time), 0.08),
        axes: LABELS,
        highlightCallback: (event, x, points, row) => show(legend, row), unhighlightCallback: () => show(legend),
      };
    });
  }

  drawLayouts(data.layouts);
  drawMemory(data.memory);
  for (const charts of document.querySelectorAll('.charts'))
    if (!charts.children.length) charts.remove();
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
    for (const {graph, colored} of graphs) graph.updateOptions(colored());
  });
  addEventListener('resize', scaleForPaper);
  scaleForPaper();
  document.documentElement.dataset.charts = graphs.length;
})();
