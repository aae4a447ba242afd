// Type-ahead over entities: the ARIA combobox pattern, with arrows, Enter and Escape.
import { get } from "./api.js";
import { count, el } from "./dom.js";

let made = 0;

export function combobox(input, onPick, onClear = () => {}) {
  const list = el("ul", { class: "options", role: "listbox", id: `options-${made++}`, "aria-label": "Entities", hidden: true });
  input.after(list);
  const fixed = { role: "combobox", "aria-autocomplete": "list", "aria-controls": list.id, "aria-expanded": "false" };
  for (const [name, value] of Object.entries(fixed)) input.setAttribute(name, value);
  let found = [], place = -1, timer = 0, controller = null;

  const close = () => { clearTimeout(timer); controller?.abort(); list.hidden = true; place = -1; input.setAttribute("aria-expanded", "false"); input.removeAttribute("aria-activedescendant"); };
  const take = (label) => { close(); onPick(label); };

  function mark(next) {
    place = next;
    [...list.children].forEach((option, i) => option.setAttribute("aria-selected", i === place));
    const current = list.children[place];
    if (!current) return input.removeAttribute("aria-activedescendant");
    input.setAttribute("aria-activedescendant", current.id);
    current.scrollIntoView({ block: "nearest" });
  }

  function show(typed) {
    list.replaceChildren(...found.map(({ entity, facts }, i) => el("li",
      { role: "option", id: `${list.id}-${i}`, "aria-selected": "false", onpointerdown: (event) => { event.preventDefault(); take(entity); } },
      highlighted(entity, typed), el("span", { class: "quiet" }, `${count(facts)} facts`))));
    if (!found.length) list.replaceChildren(el("li", { class: "quiet" }, "Nothing by that name"));
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
    mark(found.length && typed ? 0 : -1);
  }

  async function look() {
    controller?.abort();
    controller = new AbortController();
    const typed = input.value;
    try {
      found = (await get("entities", { search: typed, top: 12 }, controller.signal)).entities;
      if (document.activeElement === input) show(typed.trim());
    } catch (error) {
      if (error.name !== "AbortError") close();
    }
  }

  input.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(look, 50); if (!input.value) onClear(); });
  input.addEventListener("focus", () => input.select());
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (list.hidden) return look();
      const step = event.key === "ArrowDown" ? 1 : -1;
      if (found.length) mark((place + step + found.length) % found.length);
    } else if (event.key === "Enter") {
      event.preventDefault();
      if (found[place] && !list.hidden) take(found[place].entity);
      else if (input.value.trim()) take(input.value.trim());
    } else if (event.key === "Escape") {
      if (list.hidden) input.blur();
      close();
    }
  });
}

function highlighted(label, typed) {
  const start = typed ? label.toLowerCase().indexOf(typed.toLowerCase()) : -1;
  if (start < 0) return el("span", {}, label);
  const end = start + typed.length;
  return el("span", {}, label.slice(0, start), el("mark", {}, label.slice(start, end)), label.slice(end));
}
