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

// Two digits of what is small, and of what is missing to 100%: nothing is certain, and nothing impossible.
export function percent(share) {
  const value = 100 * share;
  if (value > 99.9999) return ">99.9999%";
  if (value >= 99) {
    const digits = Math.min(4, 1 - Math.floor(Math.log10(100 - value)));
    return `${(Math.floor(value * 10 ** digits) / 10 ** digits).toFixed(digits)}%`;
  }
  if (value >= 10) return `${value.toFixed(1)}%`;
  return value < 0.0001 ? "<0.0001%" : `${value.toPrecision(2)}%`;
}
