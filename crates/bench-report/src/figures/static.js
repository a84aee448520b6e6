// What ECharts expects of its surroundings, and the one function that is called from outside.
var noop = function () {};
var console = { log: noop, warn: noop, error: noop, info: noop, debug: noop };
var setTimeout = function () { return 0; }, clearTimeout = noop, setInterval = function () { return 0; }, clearInterval = noop;

// Widths of U+0020 to U+007E in DejaVu Sans, in thousandths of its size: what is not measured in the font that it is drawn with lies on its
// neighbour. Other letters are about as wide as an m at most; Han characters are square. Bold is a tenth wider.
var WIDTHS = [318,401,460,838,636,950,780,275,390,390,500,838,318,361,318,337,636,636,636,636,636,636,636,636,636,636,337,337,838,838,838,531,1000,684,686,698,770,632,575,775,752,295,295,656,557,863,748,787,603,787,695,635,611,732,684,989,685,611,685,390,337,390,838,500,500,613,635,550,635,615,352,635,634,278,278,579,278,974,634,612,635,635,411,521,392,634,592,818,592,592,525,636,337,636,838];
function measureText(text, font) {
  var size = parseFloat((/([\d.]+)px/.exec(font || '') || [0, 12])[1]), wide = 0;
  for (var i = 0; i < text.length; i++) {
    var code = text.charCodeAt(i);
    wide += code > 0x2e7f ? 1000 : WIDTHS[code - 32] || 640;
  }
  return { width: wide / 1000 * size * (/bold/.test(font || '') ? 1.12 : 1) };
}

function benchDraw(json, width, height, title, note) {
  echarts.setPlatformAPI({ measureText: measureText });
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
