// The list of runs: shows the rows that have every word of the filter, and what compares two that are ticked.
(function () {
  'use strict';
  var rows = Array.prototype.slice.call(document.querySelectorAll('#runs tbody tr'));
  var filter = document.getElementById('filter'), pair = document.getElementById('pair');
  var asked = pair.textContent, ticked = [];
  // as it is shown, with spaces between cells; of a hidden row that cannot be asked
  var texts = rows.map(function (row) { return row.innerText.toLowerCase(); });
  function narrow() {
    var words = filter.value.toLowerCase().split(/\s+/).filter(Boolean), shown = 0;
    rows.forEach(function (row, i) {
      row.hidden = !words.every(function (word) { return texts[i].indexOf(word) >= 0; });
      if (!row.hidden) { shown += 1; }
    });
    document.getElementById('shown').textContent = shown + ' of ' + rows.length + ' shown';
  }
  function quoted(path) { return "'" + path.replace(/'/g, "'\\''") + "'"; }
  function tell() {
    pair.textContent = asked;
    if (ticked.length < 2) { return; }
    // The older one, further down, is what was there before.
    var both = ticked.slice().sort(function (a, b) {
      return a.compareDocumentPosition(b) & Node.DOCUMENT_POSITION_FOLLOWING ? 1 : -1;
    });
    var served = pair.hasAttribute('data-served'), way = document.createElement(served ? 'a' : 'code');
    if (served) {
      way.href = 'compare/' + both[0].value + '/' + both[1].value + '.html';
      way.textContent = 'Compare ' + both[1].dataset.path + ' with ' + both[0].dataset.path;
      pair.textContent = '';
    } else {
      way.textContent = 'bench-report compare ' + quoted(both[0].dataset.path) + ' ' + quoted(both[1].dataset.path) + ' --html compare.html';
      pair.textContent = 'Their comparison: ';
    }
    pair.appendChild(way);
  }
  document.querySelectorAll('#runs input').forEach(function (box) {
    box.hidden = false;
    box.checked = false;
    box.addEventListener('change', function () {
      ticked = ticked.filter(function (other) { return other !== box; });
      if (box.checked) { ticked.push(box); }
      if (ticked.length > 2) { ticked.shift().checked = false; }
      tell();
    });
  });
  document.getElementById('tools').hidden = false;
  filter.addEventListener('input', narrow);
  narrow();
})();
