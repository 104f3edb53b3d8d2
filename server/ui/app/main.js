// The page begins here: the shell, and which view is shown. Views that are not looked at are not loaded.
import { html, render, useEffect, useEvent, useLayoutEffect, useState } from './html.js';
import { Chat } from './chat.js';
import { Above } from './dialog.js';
import { Button } from './icons.js';
import { Keys } from './keyboard.js';
import { begin } from './live.js';
import { resume } from './pulls.js';
import { begin as share } from './share.js';
import { Side } from './side.js';
import { Banner } from './status.js';
import { language, speak, t } from './words.js';

const views = {
  models: () => import('./models.js').then((m) => m.Models),
  documents: () => import('./documents.js').then((m) => m.Documents),
  card: () => import('./card.js').then((m) => m.Card),
  connect: () => import('./connect.js').then((m) => m.Connect),
  settings: () => import('./preferences.js').then((m) => m.Preferences),
};

function route() {
  const [view, id] = location.hash.replace(/^#\/?/, '').split('/');
  return { view: view in views ? view : 'chat', id: id ? decodeURIComponent(id) : null };
}

function App() {
  const [at, setAt] = useState(route());
  const [open, setOpen] = useState(false);
  const [view, setView] = useState(null); // {name, is}
  language.use();
  useEvent('hashchange', () => setAt(route()));
  useEvent('axle-opened', () => setAt(route()));
  useLayoutEffect(() => { // Escape closes what covers the view
    if (!open) return undefined;
    const f = (e) => {
      if (e.key !== 'Escape' || e.isComposing || document.querySelector('dialog[open]') || e.target.closest?.('.chats form')) return;
      e.preventDefault();
      e.stopPropagation();
      setOpen(false);
      document.querySelector('.menu')?.focus();
    };
    addEventListener('keydown', f, true);
    return () => removeEventListener('keydown', f, true);
  }, [open]);
  useEffect(() => {
    if (!views[at.view]) return;
    document.title = t('view.' + at.view) + ' – axle';
    views[at.view]().then((is) => setView({ name: at.view, is }), (e) => { console.error(e); setView({ name: at.view, is: null }); });
  }, [at.view]);
  const menu = html`<${Button} icon="menu" class="menu" label=${t('menu')} onClick=${() => setOpen(!open)} />`;
  const ready = view?.name === at.view ? view : null;
  return html`<div class="shell"><a class="skip" href="#main" onClick=${(e) => { e.preventDefault(); document.querySelector('main').focus(); }}>${t('skip')}</a>
    <${Side} route=${at} opened=${open} shut=${() => setOpen(false)} />
    ${open && html`<div class="shade" onClick=${() => setOpen(false)}></div>`}
    <main class="view" id="main" tabindex="-1"><${Banner} />
      ${at.view === 'chat' ? html`<${Chat} id=${at.id} menu=${menu} />` : ready && (ready.is ? html`<${ready.is} menu=${menu} />` : html`<div class="bar">${menu}</div><p class="page">${t('view.gone')}</p>`)}
    </main><${Keys} /><${Above} /></div>`;
}

// Styles that a script has put there do not hold scripts back.
const styled = [...document.querySelectorAll('link[rel="stylesheet"]')].map((l) => l.sheet || new Promise((ok) => { l.onload = l.onerror = ok; }));
await Promise.all([speak(), ...styled]);
const app = document.getElementById('app');
app.replaceChildren();
render(html`<${App} />`, app);
begin();
share();
resume();
