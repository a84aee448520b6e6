// One trend at a time: the one that the address names (#trend-3), else the first. It runs before the charts are drawn.
(function () {
  'use strict';
  var figures = Array.prototype.slice.call(document.querySelectorAll('figure[data-chart]'));
  var which = document.getElementById('which');
  if (!which) { return; }
  function show() {
    var asked = location.hash.slice(1);
    var chosen = figures.filter(function (figure) { return figure.id === asked; })[0] || figures[0];
    figures.forEach(function (figure) { figure.hidden = figure !== chosen; });
    which.value = chosen.id;
    return chosen;
  }
  which.hidden = false;
  which.addEventListener('change', function () { location.hash = which.value; });
  window.addEventListener('hashchange', function () { show().scrollIntoView({ block: 'nearest' }); });
  show();
})();
