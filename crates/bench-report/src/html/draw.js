// Makes an ECharts option of ours drawable: names of functions become functions, roles of colours become colours, and the
// theme is laid over it. Used by the page and by the static figures alike. Text is never evaluated.
var BENCH = (function () {
  'use strict';
  // Without quotes: ECharts writes the list into an attribute as it is.
  var FONT = 'system-ui, Segoe UI, Roboto, DejaVu Sans, sans-serif';
  var THEMES = {
    light: {
      palette: ['#2563eb', '#d97706', '#0d9488', '#9333ea', '#dc2626', '#0891b2', '#be185d', '#65a30d'],
      good: '#16a34a', warn: '#d97706', bad: '#dc2626', muted: '#94a3b8', text: '#1e293b', soft: '#64748b', axis: '#cbd5e1',
      split: '#e8edf3', card: '#ffffff', heat: ['#eef4ff', '#7fb0f5', '#2563eb', '#172554']
    },
    dark: {
      palette: ['#60a5fa', '#fbbf24', '#2dd4bf', '#c084fc', '#f87171', '#22d3ee', '#f472b6', '#a3e635'],
      good: '#4ade80', warn: '#fbbf24', bad: '#f87171', muted: '#64748b', text: '#e2e8f0', soft: '#94a3b8', axis: '#475569',
      split: '#263143', card: '#151c28', heat: ['#1b2536', '#1d4ed8', '#60a5fa', '#f0f9ff']
    }
  };

  function color(theme, role) {
    if (typeof role !== 'string' || role.charAt(0) !== '@') { return role; }
    var name = role.slice(1);
    return /^\d+$/.test(name) ? theme.palette[name % theme.palette.length] : (theme[name] || theme.muted);
  }

  function offset(api, slot) {
    if (!slot || slot[1] < 2) { return 0; }
    return api.barLayout({ count: slot[1], barMaxWidth: 44 })[slot[0]].offsetCenter;
  }

  function line(x1, y1, x2, y2, stroke, width) {
    return { type: 'line', shape: { x1: x1, y1: y1, x2: x2, y2: y2 }, z2: 100, style: { stroke: stroke, lineWidth: width } };
  }

  // Each takes the theme and the series and gives a renderItem.
  var SHAPES = {
    whisker: function (theme, series) {
      return function (params, api) {
        var x = api.value(0), low = api.coord([x, api.value(1)]), high = api.coord([x, api.value(2)]);
        var at = low[0] + offset(api, series.slot), half = 4, stroke = theme.soft;
        return { type: 'group', children: [line(at, low[1], at, high[1], stroke, 1.3),
          line(at - half, low[1], at + half, low[1], stroke, 1.3), line(at - half, high[1], at + half, high[1], stroke, 1.3)] };
      };
    },
    violin: function (theme, series) {
      return function (params, api) {
        var item = series.data[params.dataIndex], x = api.value(0), fill = color(theme, item.color || '@0');
        var middle = api.coord([x, item.median]), half = Math.min(api.size([1, 0])[0] * 0.42, 60);
        var right = item.shape.map(function (p) { return [middle[0] + p[1] * half, api.coord([x, p[0]])[1]]; });
        var left = item.shape.map(function (p) { return [middle[0] - p[1] * half, api.coord([x, p[0]])[1]]; }).reverse();
        return { type: 'group', children: [
          { type: 'polygon', shape: { points: right.concat(left) }, style: { fill: fill, opacity: 0.45, stroke: fill, lineWidth: 1 } },
          line(middle[0] - half * 0.5, middle[1], middle[0] + half * 0.5, middle[1], theme.text, 2)] };
      };
    },
    span: function (theme, series) {
      return function (params, api) {
        var item = series.data[params.dataIndex], row = api.value(0), height = item.thin ? 2.5 : Math.max(2, api.size([0, 1])[1] * 0.72);
        return { type: 'group', children: item.parts.map(function (part) {
          var from = api.coord([part[0], row]), to = api.coord([part[1], row]);
          return { type: 'rect', shape: { x: from[0], y: from[1] - height / 2, width: Math.max(1, to[0] - from[0]), height: height },
            style: { fill: color(theme, part[2]) } };
        }) };
      };
    }
  };

  function paint(value, theme) {
    if (Array.isArray(value)) { value.forEach(function (v) { paint(v, theme); }); return; }
    if (!value || typeof value !== 'object') { return; }
    Object.keys(value).forEach(function (key) {
      if (/color$/i.test(key)) { value[key] = color(theme, value[key]); } else if (key !== 'data' || typeof value[key][0] === 'object') { paint(value[key], theme); }
    });
  }

  function list(value) { return Array.isArray(value) ? value : value ? [value] : []; }
  function into(target, defaults) {
    Object.keys(defaults).forEach(function (key) { if (target[key] === undefined) { target[key] = defaults[key]; } });
    return target;
  }

  // Names under an axis stay level where they fit beside each other, and lean where they do not.
  function crowded(axis, width) {
    var names = axis.data || [], longest = names.reduce(function (most, name) { return Math.max(most, Math.min(String(name).length, 18)); }, 0);
    return names.length * (longest * 6.2 + 12) > width - 70;
  }

  // Names that lean are not cut: as long as the longest, and steeper where there is little room beside each other.
  function lean(axis, width) {
    var narrow = width < 460, names = axis.data || [], angle = narrow ? 55 : 35;
    var longest = names.reduce(function (most, name) { return Math.max(most, String(name).length); }, 0);
    return { angle: angle, room: Math.min(longest * (narrow ? 5.9 : 6.5) + 4, narrow ? 170 : 230),
      across: Math.cos(angle * Math.PI / 180), down: Math.sin(angle * Math.PI / 180) };
  }

  // Long names differ at either end: what is cut off is the middle.
  function cut(name, most) {
    var tail = Math.floor((most - 1) * 0.4);
    return name.length > most ? name.slice(0, most - 1 - tail) + '…' + name.slice(-tail) : name;
  }

  function leaning(axis, width) { return axis.type === 'category' && !axis.name && crowded(axis, width); }

  // How far the first leaning name reaches beyond the left end of its axis.
  function overhang(axis, width) {
    var names = axis.data || [], how = lean(axis, width), first = Math.min(String(names[0]).length * 6.4, how.room);
    return first * how.across - (width - 60) / Math.max(names.length, 1) / 2 - 8;
  }

  function axes(option, theme, width) {
    var narrow = width < 460;
    ['xAxis', 'yAxis'].forEach(function (which) {
      list(option[which]).forEach(function (axis, index) {
        var up = which === 'yAxis';
        axis.axisLabel = into(axis.axisLabel || {}, { color: theme.soft, hideOverlap: true, fontFamily: FONT, fontSize: narrow ? 10 : 11,
          width: up && axis.type === 'category' ? (narrow ? 130 : 220) : narrow ? 64 : 110, overflow: 'truncate' });
        axis.axisLine = into(axis.axisLine || {}, { lineStyle: { color: theme.axis } });
        axis.axisTick = into(axis.axisTick || {}, { show: !up, lineStyle: { color: theme.axis } });
        axis.splitLine = into(axis.splitLine || {}, { show: up && index === 0 && axis.type !== 'category', lineStyle: { color: theme.split } });
        axis.nameTextStyle = into(axis.nameTextStyle || {}, { color: theme.soft, fontSize: narrow ? 10 : 11,
          align: up ? (index === 0 ? 'left' : 'right') : 'center', padding: up && index === 0 ? [0, 0, 0, -16] : [0, 0, 0, 0] });
        axis.nameGap = axis.nameGap || (up ? 14 : 28);
        // An end that is no round number would stand against the last round one.
        if (!up && axis.type === 'value' && axis.max !== undefined) { axis.axisLabel.showMaxLabel = false; }
        if (!up && axis.type === 'category' && !axis.name) {
          axis.axisLabel.interval = 0;
          axis.axisLabel.hideOverlap = false;
          if (leaning(axis, width)) {
            axis.axisLabel.rotate = lean(axis, width).angle;
            axis.axisLabel.width = lean(axis, width).room;
            axis.axisLabel.formatter = function (name) {
              var room = lean(axis, width).room, letter = narrow ? 5.9 : 6.5;
              return String(name).length <= room / letter ? name : cut(String(name), Math.floor(room / (1.2 * letter)));
            };
            list(option.grid).forEach(function (grid) { grid.left = Math.max(Number(grid.left || 0), overhang(axis, width)); });
          } else {
            axis.axisLabel.width = Math.max(narrow ? 80 : 150, (width - 80) / Math.max((axis.data || []).length, 1));
          }
        }
      });
    });
  }

  // A share that is wider than its bar stands upright in it, if the bar is long enough.
  function upright(option, width) {
    var names = list(option.xAxis).reduce(function (most, axis) { return Math.max(most, (axis.data || []).length); }, 0);
    if ((width - 70) / Math.max(names, 1) > 42) { return; }
    list(option.series).forEach(function (series) {
      list(series.stack && series.data).forEach(function (item) {
        if (!item || !item.label) { return; }
        item.label.rotate = 90;
        item.label.show = item.label.show && parseFloat(item.label.formatter) >= 20;
      });
    });
  }

  // How many lines the legend's names take, so that none is hidden behind an arrow and none lies on the chart.
  function legendLines(option, width) {
    var lines = 1, used = 0;
    list(option.legend).forEach(function (legend) {
      if (legend.show === false) { return; }
      (legend.data || []).forEach(function (entry) {
        var name = entry && typeof entry === 'object' ? entry.name : entry;
        var wide = String(name).split('').reduce(function (sum, c) { return sum + (c.charCodeAt(0) > 0x2e7f ? 13 : width < 460 ? 7 : 7.6); }, 0) + 36;
        if (used > 0 && used + wide > width) { lines += 1; used = 0; }
        used += wide;
      });
    });
    return lines;
  }

  // Pixels that a chart needs beyond its own height.
  function extra(option, width) {
    var below = list(option.xAxis).filter(function (axis) { return leaning(axis, width); }).map(function (axis) {
      return Math.max(0, lean(axis, width).room * lean(axis, width).down - 60);
    });
    return (legendLines(option, width) - 1) * 23 + Math.round(Math.max.apply(null, below.concat(0)));
  }

  function prepare(option, mode, width) {
    var theme = THEMES[mode], narrow = width < 460;
    list(option.grid).forEach(function (grid) { grid.top = Number(grid.top || 0) + (legendLines(option, width) - 1) * 23; });
    if (option.visualMap) {
      list(option.visualMap).forEach(function (map) {
        map.inRange = { color: theme.heat };
        map.textStyle = { color: theme.soft, fontSize: 10 };
      });
    }
    list(option.series).forEach(function (series) {
      if (typeof series.renderItem === 'string') {
        var shape = SHAPES[series.renderItem.slice(1)];
        series.renderItem = shape ? shape(theme, series) : function () { return null; };
      }
    });
    paint(option, theme);
    option.color = theme.palette;
    option.animation = false;
    option.backgroundColor = 'transparent';
    option.textStyle = { fontFamily: FONT, color: theme.text };
    axes(option, theme, width);
    upright(option, width);
    list(option.legend).forEach(function (legend) {
      legend.textStyle = { color: theme.text, fontSize: narrow ? 11 : 12 };
      legend.inactiveColor = theme.muted; legend.pageTextStyle = { color: theme.soft }; legend.pageIconColor = theme.soft;
      legend.itemWidth = 16; legend.itemHeight = 9; legend.itemGap = 12;
      var most = Math.floor((width - 40) / (narrow ? 6.6 : 7.2));
      legend.formatter = function (name) { return cut(name, most); };
    });
    list(option.title).forEach(function (title) {
      title.textStyle = into(title.textStyle || {}, { color: theme.text });
      title.subtextStyle = into(title.subtextStyle || {}, { color: theme.soft });
    });
    list(option.tooltip).forEach(function (tip) {
      tip.confine = true; tip.backgroundColor = theme.card; tip.borderColor = theme.axis;
      tip.textStyle = { color: theme.text, fontSize: 12 }; tip.renderMode = 'richText';
    });
    return option;
  }

  return { prepare: prepare, extra: extra, theme: function (mode) { return THEMES[mode]; } };
})();
