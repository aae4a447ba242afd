// The small graph around an entity: neighbours on a ring, sorted by relation, which is the colour of their edge.
import { el, svg } from "./dom.js";

const WIDTH = 400, HEIGHT = 330, TONES = 8;

export function drawGraph({ entities, edges, left_out: leftOut }, visit) {
  const relations = [...new Set(edges.filter(([h, , t]) => h === 0 || t === 0).map(([, r]) => r))].sort();
  const tone = (relation) => `var(--g${Math.max(0, relations.indexOf(relation)) % TONES})`;
  const own = new Map();
  for (const [h, r, t] of edges) if ((h === 0) !== (t === 0)) own.set(h || t, own.get(h || t) ?? r);
  const ring = entities.map((_, i) => i).slice(1).sort((a, b) => relations.indexOf(own.get(a)) - relations.indexOf(own.get(b)) || a - b);
  const spots = new Map([[0, { x: WIDTH / 2, y: HEIGHT / 2, turn: 0 }]]);
  ring.forEach((node, i) => {
    const turn = (2 * Math.PI * i) / ring.length - Math.PI / 2;
    spots.set(node, { x: WIDTH / 2 + 104 * Math.cos(turn), y: HEIGHT / 2 + 134 * Math.sin(turn), turn });
  });
  const lines = edges.filter(([h, , t]) => h !== t).map(([h, r, t]) => {
    const near = h === 0 || t === 0, a = spots.get(h), b = spots.get(t);
    const line = svg("line", { x1: a.x, y1: a.y, x2: b.x, y2: b.y, class: near ? "near" : "far" },
      svg("title", {}, `${entities[h]} ${r} ${entities[t]}`));
    line.style.stroke = near ? tone(r) : "var(--quiet)";
    return line;
  });
  const nodes = [...ring, 0].map((node) => place(entities[node], spots.get(node), node === 0, tone(own.get(node)), visit));
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "group", "aria-label": `${entities[0]} and ${ring.length} of its neighbours` },
    ...lines.sort((a, b) => b.classList.contains("far") - a.classList.contains("far")), ...nodes);
  const legend = relations.map((relation) => { const item = el("li", {}, relation); item.style.setProperty("--tone", tone(relation)); return item; });
  const more = leftOut ? el("p", { class: "quiet" }, `and ${leftOut.toLocaleString("en")} more neighbours`) : null;
  return [picture, el("ul", {}, ...legend), ...(more ? [more] : [])];
}

function place(label, { x, y, turn }, centre, tone, visit) {
  const circle = svg("circle", { cx: x, cy: y, r: centre ? 7 : 5 });
  if (!centre) circle.style.stroke = tone;
  const side = centre ? 0 : Math.cos(turn);
  const anchor = Math.abs(side) < 0.25 ? "middle" : side > 0 ? "start" : "end";
  const dy = centre ? 22 : anchor === "middle" ? (Math.sin(turn) > 0 ? 18 : -10) : 4;
  const dx = anchor === "middle" ? 0 : side > 0 ? 10 : -10;
  const room = anchor === "middle" ? 17 : Math.floor((side > 0 ? WIDTH - x : x) / 6.5); // letters up to the edge
  const text = svg("text", { x: x + dx, y: y + dy, "text-anchor": anchor }, label.length > room ? `${label.slice(0, room - 1)}…` : label);
  if (centre) return svg("g", { class: "centre" }, circle, text);
  const go = (event) => { event.preventDefault(); visit(label); };
  const keys = (event) => { if (event.key === "Enter" || event.key === " ") go(event); };
  return svg("a", { tabindex: "0", role: "link", "aria-label": label, onclick: go, onkeydown: keys }, svg("title", {}, label), circle, text);
}
