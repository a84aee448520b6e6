// Draws the charts of the page: reads each one's JSON, draws it, and draws it again when the theme or the width changes.
(function () {
  'use strict';
  var root = document.documentElement, charts = [];
  function dark() {
    var chosen = root.getAttribute('data-theme');
    return chosen ? chosen === 'dark' : window.matchMedia('(prefers-color-scheme: dark)').matches;
  }
  // On paper, before the browser has laid the page out for it: what fits between the margins of A4 and Letter.
  var PAPER = 640;
  function draw(entry, mode) {
    var width = mode ? PAPER : entry.host.clientWidth;
    // one that is not shown is drawn when it is
    if (!entry.host.clientWidth) { return; }
    if (entry.chart) { entry.chart.dispose(); }
    var option = JSON.parse(entry.json);
    entry.host.style.height = entry.height + BENCH.extra(option, width) + 'px';
    entry.chart = echarts.init(entry.host, null, { renderer: 'svg', width: width });
    entry.chart.setOption(BENCH.prepare(option, mode || (dark() ? 'dark' : 'light'), width));
    entry.width = width;
    entry.host.setAttribute('data-drawn', 'yes');
  }
  function all(mode) { charts.forEach(function (entry) { draw(entry, mode); }); }
  document.querySelectorAll('figure[data-chart]').forEach(function (figure) {
    var host = figure.querySelector('.chart');
    var entry = { host: host, height: parseInt(host.style.height, 10), json: figure.querySelector('script').textContent };
    charts.push(entry);
    draw(entry);
  });
  // The first change is followed at once, and a window that is being dragged every now and then.
  var resting = false, again = false;
  function fit() {
    if (resting) { again = true; return; }
    resting = true;
    charts.forEach(function (entry) {
      if (entry.width !== entry.host.clientWidth) { draw(entry); }
    });
    setTimeout(function () { resting = false; if (again) { again = false; fit(); } }, 120);
  }
  var widths = new ResizeObserver(fit);
  charts.forEach(function (entry) { widths.observe(entry.host); });
  window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', function () { all(); });
  // On paper nothing can be opened: what explains a finding is printed with it.
  var closed = [];
  window.addEventListener('beforeprint', function () {
    closed = Array.prototype.filter.call(document.querySelectorAll('details[data-print]'), function (d) { return !d.open; });
    closed.forEach(function (d) { d.open = true; });
    all('light');
  });
  window.addEventListener('afterprint', function () {
    closed.forEach(function (d) { d.open = false; });
    all();
  });
  var toggle = document.getElementById('theme');
  toggle.hidden = false;
  toggle.addEventListener('click', function () {
    root.setAttribute('data-theme', dark() ? 'light' : 'dark');
    toggle.setAttribute('aria-pressed', String(dark()));
    all();
  });
  root.setAttribute('data-ready', String(charts.length));
})();
