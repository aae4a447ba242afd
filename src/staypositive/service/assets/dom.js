// Small helpers. Labels of a graph are text, never markup: they go in by textContent alone.

export const $ = (id) => document.getElementById(id);

export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  return fill(node, attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  return fill(node, attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null)); // strings become text nodes
  return node;
}

export function bar(share) {
  const inner = el("div", { class: "fill" });
  inner.style.transform = `scaleX(${Math.max(0, Math.min(1, share))})`;
  return el("div", { class: "track", "aria-hidden": "true" }, inner);
}

export const count = (number) => Math.round(number).toLocaleString("en");

export function percent(share) {
  const value = 100 * share;
  if (value >= 99) return `${(Math.floor(value * 100) / 100).toFixed(2)}%`;
  if (value >= 10) return `${value.toFixed(1)}%`;
  return value < 0.0001 ? "<0.0001%" : `${Number(value.toPrecision(2))}%`;
}
