// Draws the charts of the page: reads each one's JSON, draws it, and draws it again when the theme or the width changes.
(function () {
  'use strict';
  var root = document.documentElement, charts = [];
  function dark() {
    var chosen = root.getAttribute('data-theme');
    return chosen ? chosen === 'dark' : window.matchMedia('(prefers-color-scheme: dark)').matches;
  }
  function draw(entry, mode) {
    var width = entry.host.clientWidth;
    if (entry.chart) { entry.chart.dispose(); }
    entry.chart = echarts.init(entry.host, null, { renderer: 'svg' });
    entry.chart.setOption(BENCH.prepare(JSON.parse(entry.json), mode || (dark() ? 'dark' : 'light'), width));
    entry.width = width;
    entry.host.setAttribute('data-drawn', 'yes');
  }
  function all(mode) { charts.forEach(function (entry) { draw(entry, mode); }); }
  document.querySelectorAll('figure[data-chart]').forEach(function (figure) {
    var entry = { host: figure.querySelector('.chart'), json: figure.querySelector('script').textContent };
    charts.push(entry);
    draw(entry);
  });
  var waiting = null;
  window.addEventListener('resize', function () {
    clearTimeout(waiting);
    waiting = setTimeout(function () {
      charts.forEach(function (entry) {
        if (entry.width !== entry.host.clientWidth) { draw(entry); }
      });
    }, 120);
  });
  window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', function () { all(); });
  window.addEventListener('beforeprint', function () { all('light'); });
  window.addEventListener('afterprint', function () { all(); });
  var toggle = document.getElementById('theme');
  toggle.hidden = false;
  toggle.addEventListener('click', function () {
    root.setAttribute('data-theme', dark() ? 'light' : 'dark');
    toggle.setAttribute('aria-pressed', String(dark()));
    all();
  });
  root.setAttribute('data-ready', String(charts.length));
})();
