// Runs in a page that was drawn: what hides what, left in an attribute of the root element as JSON.
(function () {
  'use strict';
  var found = [];
  function corners(text) {
    var box = text.getBBox(), matrix = text.getScreenCTM(), inset = 1.5;
    return [[box.x, box.y], [box.x + box.width, box.y], [box.x + box.width, box.y + box.height], [box.x, box.y + box.height]]
      .map(function (p, i) {
        var x = p[0] + (i === 0 || i === 3 ? inset : -inset), y = p[1] + (i < 2 ? inset * 1.6 : -inset * 1.6);
        return [matrix.a * x + matrix.c * y + matrix.e, matrix.b * x + matrix.d * y + matrix.f];
      });
  }
  // Separating axes: words that lean do not touch only because the boxes around them do.
  function apart(a, b) {
    return [a, b].some(function (shape) {
      return shape.some(function (p, i) {
        var q = shape[(i + 1) % 4], normal = [q[1] - p[1], p[0] - q[0]];
        function reach(s) { return s.map(function (r) { return r[0] * normal[0] + r[1] * normal[1]; }); }
        var first = reach(a), second = reach(b);
        return Math.max.apply(null, first) <= Math.min.apply(null, second) || Math.max.apply(null, second) <= Math.min.apply(null, first);
      });
    });
  }
  document.querySelectorAll('figure[data-chart]').forEach(function (figure) {
    if (figure.hidden) { return; }
    var frame = figure.querySelector('.chart svg').getBoundingClientRect();
    var texts = [].filter.call(figure.querySelectorAll('.chart svg text'), function (t) { return t.textContent.trim() !== ''; });
    var shapes = texts.map(corners);
    shapes.forEach(function (shape, i) {
      shape.forEach(function (p) {
        if (p[0] < frame.left - 3 || p[0] > frame.right + 3 || p[1] < frame.top - 3 || p[1] > frame.bottom + 3) {
          found.push(figure.id + ': "' + texts[i].textContent + '" leaves its chart');
        }
      });
      for (var j = i + 1; j < shapes.length; j += 1) {
        if (!apart(shape, shapes[j])) { found.push(figure.id + ': "' + texts[i].textContent + '" on "' + texts[j].textContent + '"'); }
      }
    });
  });
  var wide = document.documentElement.scrollWidth;
  if (wide > window.innerWidth) { found.push('the page is ' + wide + ' pixels wide in a window of ' + window.innerWidth); }
  document.querySelectorAll('h1, h2, h3, p, li, dt, dd, summary').forEach(function (element) {
    var box = element.getBoundingClientRect();
    if (box.width > 0 && box.right > window.innerWidth + 1 && !element.closest('.scroll, nav')) { found.push('"' + element.textContent.slice(0, 60) + '" leaves the window'); }
  });
  document.querySelectorAll('.good, .bad, .warn').forEach(function (cell) {
    var box = cell.getBoundingClientRect();
    if (cell.closest('table') && box.width > 0 && box.right > window.innerWidth + 1) { found.push('the verdict "' + cell.textContent + '" is beyond the window'); }
  });
  // A screen of a laptop shows whole tables: nobody scrolls a card sideways there.
  if (window.innerWidth >= 1280) {
    document.querySelectorAll('.card .scroll').forEach(function (frame) {
      var table = frame.querySelector('table'), over = frame.scrollWidth - frame.clientWidth;
      if (!frame.closest('details') && over > 1) { found.push('the table "' + table.caption.textContent + '" is ' + over + ' pixels wider than its card'); }
    });
  }
  var first = document.querySelector('.first .chart');
  if (first && window.innerWidth >= 1280) {
    document.documentElement.setAttribute('data-first', String(Math.round(first.getBoundingClientRect().bottom + window.scrollY)));
  }
  document.documentElement.setAttribute('data-found', JSON.stringify(found.filter(function (f, i) { return found.indexOf(f) === i; })));
  document.documentElement.setAttribute('data-width', String(window.innerWidth));
})();
