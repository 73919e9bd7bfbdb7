// What the scripts of all pages share.
'use strict';

const color = name => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();

// Formats with an SI prefix: 20000 is "20 k". `digits`: significant digits.
function amount(v, digits = 3) {
  const a = Math.abs(v);
  const short = x => String(+x.toPrecision(digits));
  if (a >= 1e15) return exponential(v, digits);
  if (a >= 1e12) return short(v / 1e12) + ' T';
  if (a >= 1e9) return short(v / 1e9) + ' G';
  if (a >= 1e6) return short(v / 1e6) + ' M';
  if (a >= 1e4) return short(v / 1e3) + ' k';
  if (a === 0 || a >= 1e-3) return String(+v.toPrecision(Math.max(digits, 4)));
  return exponential(v, digits);
}

function exponential(v, digits) {
  return Number(v.toPrecision(digits)).toExponential();
}

// The unit of a chart whose largest value is `most` seconds or bytes: its name and its size.
function timeUnit(most) {
  if (most < 1) return {name: 'ms', size: 1e-3};
  if (most < 120) return {name: 's', size: 1};
  if (most < 7200) return {name: 'min', size: 60};
  return most < 172800 ? {name: 'h', size: 3600} : {name: 'days', size: 86400};
}

function byteUnit(most) {
  if (most < 2 ** 20) return {name: 'KiB', size: 2 ** 10};
  return most < 2 ** 30 ? {name: 'MiB', size: 2 ** 20} : {name: 'GiB', size: 2 ** 30};
}

// Labels of an axis have enough digits to differ, also for a narrow range far from zero.
function axisLabel(v, [low, high]) {
  const digits = Math.ceil(Math.log10(Math.max(Math.abs(low), Math.abs(high)) / (high - low))) + 2;
  return amount(v, Math.min(Math.max(digits || 3, 3), 15));  // NaN if both ends are 0
}
const LABELS = {
  x: {axisLabelFormatter: (v, granularity, options, graph) => axisLabel(v, graph.xAxisRange()), axisLabelWidth: 60},
  y: {axisLabelFormatter: (v, granularity, options, graph) => axisLabel(v, graph.yAxisRange()), axisLabelWidth: 58},
};

function withText(node, content) {
  node.textContent = content;
  return node;
}

// A chart wider than paper (in CSS pixels) is scaled to it. It is not drawn again, because Chromium
// does not print a canvas that changes when printing begins.
const PAPER = 670;
function scaleForPaper() {
  for (const plot of document.querySelectorAll('.plot'))
    plot.style.setProperty('--paper', Math.min(1, PAPER / plot.clientWidth));
}
