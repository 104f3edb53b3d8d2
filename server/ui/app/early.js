// Runs before anything is painted: the theme and the language that were chosen, so that nothing flashes. Not a module, since modules wait.
// The rest of the page stands in a template and is asked for when the empty frame has been painted: a browser that loads everything at once
// shows nothing until it has. A page that is not seen paints no frame, and gets it at once.
'use strict';
(() => {
  const root = document.documentElement;
  try {
    const set = JSON.parse(localStorage.getItem('axle-settings') || '{}');
    if (set.theme === 'light' || set.theme === 'dark') root.dataset.theme = set.theme;
    if (set.text) root.style.setProperty('--size', Number(set.text) + 'px');
    const lang = set.lang || navigator.language || 'en';
    root.lang = /^(?:de|zh|ja|ko)(?![a-z])/i.exec(lang)?.[0].toLowerCase() ?? 'en';
  } catch { /* storage may be off: the defaults stand */ }
  addEventListener('DOMContentLoaded', () => {
    const rest = () => document.body.append(document.getElementById('rest').content);
    if (document.hidden) return rest();
    try { // a frame that is asked for is shown later: its time is told when it was
      new PerformanceObserver((list, it) => { it.disconnect(); rest(); }).observe({ type: 'paint', buffered: true });
    } catch { /* a browser that does not tell */ }
    requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(rest, 100))); // whatever comes second finds nothing left to add
    return undefined;
  });
})();
