// The view library in one import: preact, its hooks, and htm's tagged templates; and a signal, which is a value that views can follow.
import { h, render } from '../vendor/preact.js';
import { useEffect, useLayoutEffect, useRef, useState } from '../vendor/hooks.js';
import htm from '../vendor/htm.js';

export const html = htm.bind(h);
export { render, useEffect, useLayoutEffect, useRef, useState };

// el makes an element with properties and children, where no view draws it.
export function el(name, properties, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

// css is the value of a property of the page's, such as a colour of the theme.
export const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// signal holds a value. set tells who follows; use, in a component, draws it anew whenever the value changes.
export function signal(value) {
  const followers = new Set();
  const s = {
    get: () => value,
    set(next) {
      if (next === value) return;
      value = next;
      for (const f of [...followers]) f(value);
    },
    follow(f) {
      followers.add(f);
      return () => followers.delete(f);
    },
    use() {
      const [, draw] = useState(0);
      useLayoutEffect(() => s.follow(() => draw((n) => n + 1)), []);
      return value;
    },
  };
  return s;
}

// useEvent listens to the window while the component is there, with the function of its last drawing.
export function useEvent(kind, f) {
  useEffect(() => {
    addEventListener(kind, f);
    return () => removeEventListener(kind, f);
  });
}

// useEach calls f each second while on.
export function useEach(on, f) {
  useEffect(() => {
    if (!on) return undefined;
    const id = setInterval(f, 1000);
    return () => clearInterval(id);
  }, [on]);
}

let last = 0;
// token is a name that is random and tells nothing else.
export const token = () => [...crypto.getRandomValues(new Uint8Array(16))].map((x) => x.toString(16).padStart(2, '0')).join('');

// fresh is a new name, sortable by the time it was made. (crypto.randomUUID is not there on a plain http:// page of the LAN.)
export function fresh() {
  last = Math.max(Date.now(), last + 1);
  const b = crypto.getRandomValues(new Uint8Array(8));
  return last.toString(36).padStart(9, '0') + [...b].map((x) => (x % 36).toString(36)).join('');
}
