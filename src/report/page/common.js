// What the scripts of all pages share.
'use strict';

const color = name => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();

// Formats with an SI prefix: 20000 is "20 k".
function amount(v) {
  const a = Math.abs(v);
  const short = x => String(+x.toPrecision(3));
  if (a >= 1e12) return short(v / 1e12) + ' T';
  if (a >= 1e9) return short(v / 1e9) + ' G';
  if (a >= 1e6) return short(v / 1e6) + ' M';
  if (a >= 1e4) return short(v / 1e3) + ' k';
  if (a === 0 || a >= 1e-3) return String(+v.toPrecision(4));
  return Number(v.toPrecision(3)).toExponential();
}

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
