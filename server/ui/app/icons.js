// Pictograms, drawn with strokes on 24 by 24. They say nothing to a screen reader: the buttons around them do.
import { html } from './html.js';

const paths = {
  again: 'M4 12a8 8 0 0 1 13.7-5.6L20 8.5M20 4v4.5h-4.5M20 12a8 8 0 0 1-13.7 5.6L4 15.5M4 20v-4.5h4.5',
  attach: 'M20 11.5l-8 8a5 5 0 0 1-7-7l8.5-8.5a3.3 3.3 0 0 1 4.7 4.7L9.8 17a1.7 1.7 0 0 1-2.4-2.4l7.6-7.5',
  branch: 'M7 8.4v7.2M7 8.4a2.2 2.2 0 1 0 0-4.4 2.2 2.2 0 0 0 0 4.4zM7 20a2.2 2.2 0 1 0 0-4.4 2.2 2.2 0 0 0 0 4.4zM17 8.4a2.2 2.2 0 1 0 0-4.4 2.2 2.2 0 0 0 0 4.4zM17 8.4c0 4.6-10 2.4-10 7.2',
  camera: 'M4 8h3.5l1.5-2.5h6L16.5 8H20v11H4zM12 16.5a3.2 3.2 0 1 0 0-6.4 3.2 3.2 0 0 0 0 6.4z',
  card: 'M4 6h16v11H4zM8 17v3M12 17v3M16 17v3M8 10h4v3.5H8zM15.5 10v3.5',
  chat: 'M4 5h16v11H10l-5 4v-4H4z',
  close: 'M6 6l12 12M18 6L6 18',
  connect: 'M9 3v5M15 3v5M6.5 8h11v3.5a5.5 5.5 0 0 1-11 0zM12 17v4',
  copy: 'M9 9h11v11H9zM5 15H4V4h11v1',
  chevron: 'M7 10l5 5 5-5',
  down: 'M12 5v14M6 13l6 6 6-6',
  edit: 'M4 20h4L19.5 8.5l-4-4L4 16zM13 7l4 4',
  left: 'M14 6l-6 6 6 6',
  menu: 'M4 7h16M4 12h16M4 17h16',
  mic: 'M12 3a3 3 0 0 0-3 3v5a3 3 0 0 0 6 0V6a3 3 0 0 0-3-3zM5.5 11a6.5 6.5 0 0 0 13 0M12 17.5V21M9 21h6',
  models: 'M12 3l8.5 4.5L12 12 3.5 7.5zM3.5 12l8.5 4.5 8.5-4.5M3.5 16.5L12 21l8.5-4.5',
  plus: 'M12 5v14M5 12h14',
  right: 'M10 6l6 6-6 6',
  search: 'M10.5 17a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13zM15.5 15.5L20 20',
  send: 'M12 20V5M5.5 11L12 4.5 18.5 11',
  settings: 'M4 7h9M17 7h3M4 17h3M11 17h9M15 9.2a2.2 2.2 0 1 0 0-4.4 2.2 2.2 0 0 0 0 4.4zM9 19.2a2.2 2.2 0 1 0 0-4.4 2.2 2.2 0 0 0 0 4.4z',
  sound: 'M4 9.5v5h3.5L12 18.5v-13L7.5 9.5zM15.5 9a4.2 4.2 0 0 1 0 6M18 6.5a7.8 7.8 0 0 1 0 11',
  stop: 'M7 7h10v10H7z',
  text: 'M6 3h8l4 4v14H6zM14 3v4h4M9 12h6M9 16h6',
  think: 'M9.5 18h5M10.5 21h3M12 3a6 6 0 0 0-3.5 10.9c.7.5 1 1.1 1 1.8h5c0-.7.3-1.3 1-1.8A6 6 0 0 0 12 3z',
  tool: 'M14.5 6.5a4 4 0 0 0-5 5L4 17l3 3 5.5-5.5a4 4 0 0 0 5-5L15 12l-3-3z',
  trash: 'M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13',
  warn: 'M12 4L2.8 20h18.4zM12 10v5M12 17.5v.5',
};

export const Icon = ({ name, size = 18 }) => html`<svg class="icon" width=${size} height=${size} viewBox="0 0 24 24" aria-hidden="true"
  fill=${name === 'stop' ? 'currentColor' : 'none'} stroke="currentColor" stroke-width="1.7" stroke-linecap="round" stroke-linejoin="round"><path d=${paths[name]} /></svg>`;

export const Mark = () => html`<svg class="mark" viewBox="0 0 36 14" width="36" height="14" aria-hidden="true" fill="none" stroke="currentColor" stroke-width="2.6"
  stroke-linecap="round"><circle cx="7" cy="7" r="5" /><circle cx="29" cy="7" r="5" /><path d="M12 7h12" /></svg>`;

// Button is an icon with a name; label is what is read and shown as its tip.
export const Button = ({ icon, label, class: c = '', children, ...rest }) => html`<button type="button" class=${'quiet ' + c} aria-label=${label} title=${label} ...${rest}><${Icon}
  name=${icon} />${children}</button>`;
