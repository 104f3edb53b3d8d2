// Places in a picture, read from an answer: boxes and points, as models write them that were trained to. No document is needed here:
// TestGrounding runs it by itself.

const most = 200; // places of an answer that are drawn: more of them cover the picture

// marks are LocateAnything's: <ref>dog</ref><box><120><340><560><900></box>, and a point <box><31><48></box>, in thousandths of the sides.
const marks = /<ref>([^<]*)<\/ref>|<box>((?:<\d{1,4}>){2,4})<\/box>/g;

// counted says whether an answer may have coordinates whose measure only the model tells.
export const counted = (text) => /"(?:bbox|point)_2d"/.test(text);

// places are those of an answer: {label, point, left, top, right, bottom}, in parts of the picture's width and height. A point's sides are
// the same. parts is how many of the width and of the height a coordinate counts in JSON ("bbox_2d", "point_2d"), which differs from model to
// model; without it those are left out. So is what lies outside of the picture, and what is cut off.
export function places(text, parts) {
  const found = [];
  const add = (label, numbers, [width, height]) => {
    const point = numbers.length === 2;
    if ((!point && numbers.length !== 4) || found.length === most) return;
    const at = numbers.map((n, i) => n / (i % 2 ? height : width));
    if (!at.every((v) => v >= 0 && v <= 1)) return;
    const [x1, y1, x2, y2] = point ? [...at, ...at] : at;
    found.push({ label: label.trim().slice(0, 80), point, left: Math.min(x1, x2), top: Math.min(y1, y2), right: Math.max(x1, x2), bottom: Math.max(y1, y2) });
  };
  let label = '';
  for (const [, named, box] of text.matchAll(marks)) {
    if (box === undefined) label = named;
    else add(label, box.match(/\d+/g).map(Number), [1000, 1000]);
  }
  if (!(parts?.[0] > 0 && parts[1] > 0)) return found;
  for (const piece of text.split('{').slice(1)) {
    const end = piece.indexOf('}');
    if (end < 0 || !counted(piece.slice(0, end))) continue;
    let one;
    try {
      one = JSON.parse('{' + piece.slice(0, end + 1));
    } catch {
      continue;
    }
    const numbers = one.bbox_2d ?? one.point_2d;
    const name = one.label ?? one.text_content ?? '';
    if (Array.isArray(numbers) && numbers.every(Number.isFinite) && numbers.length === (one.bbox_2d ? 4 : 2)) add(String(name), numbers, parts);
  }
  return found;
}
