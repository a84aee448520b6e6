// What ECharts expects of its surroundings, and the one function that is called from outside.
var noop = function () {};
var console = { log: noop, warn: noop, error: noop, info: noop, debug: noop };
var setTimeout = function () { return 0; }, clearTimeout = noop, setInterval = function () { return 0; }, clearInterval = noop;

function benchDraw(json, width, height, title, note) {
  var head = note ? 66 : 44;
  var plain = JSON.parse(json), extra = BENCH.extra(plain, width);
  var option = BENCH.prepare(plain, 'light', width);
  option.backgroundColor = '#ffffff';
  option.title = { text: title, subtext: note, left: 12, top: 10, itemGap: 5,
    textStyle: { fontSize: 16, fontWeight: 'bold', color: '#1e293b', width: width - 24, overflow: 'truncate' },
    subtextStyle: { fontSize: 11, color: '#64748b', width: width - 24, overflow: 'truncate' } };
  [].concat(option.grid || []).forEach(function (grid) {
    grid.top = Number(grid.top || 0) + head; grid.left = Number(grid.left || 0) + 8; grid.right = 28; grid.bottom = 42;
  });
  [].concat(option.legend || []).forEach(function (legend) { legend.top = head; legend.left = 12; });
  [].concat(option.visualMap || []).forEach(function (map) { map.top = head; });
  [].concat(option.series || []).forEach(function (series) { series.progressive = 0; });
  var chart = echarts.init(null, null, { renderer: 'svg', ssr: true, width: width, height: height + head + extra });
  chart.setOption(option);
  var svg = chart.renderToSVGString();
  chart.dispose();
  return svg;
}
