// What is known of one entity: its graph, its likes, its facts; each heading of facts is a question to ask.
import { get } from "./api.js";
import { $, bar, count, el } from "./dom.js";
import { drawGraph } from "./graph.js";

const SHOWN = 12;

export async function showEntity(entity, visit, ask, signal) {
  const [facts, similar, around] = await Promise.all([
    get("facts", { entity, top: 300 }, signal), get("similar", { entity, top: 6 }, signal),
    get("neighbourhood", { entity, top: 12 }, signal),
  ]);
  $("entity-title").textContent = entity;
  $("entity-note").textContent = `${count(facts.total)} known ${facts.total === 1 ? "fact" : "facts"}`;
  $("graph").replaceChildren(...drawGraph(around, visit));
  $("similar").replaceChildren(...similar.entities.map((one) => el("li", {}, name(one.entity, visit),
    bar(one.similarity), el("span", { class: "number" }, one.similarity.toFixed(2)))));
  $("facts").replaceChildren(...groups(facts.facts, entity).flatMap((group) => section(group, entity, visit, ask)));
}

const name = (label, visit) => el("button", { type: "button", class: "name", onclick: () => visit(label) }, label);

function groups(facts, entity) {
  const found = new Map();
  for (const { head, relation, tail } of facts) {
    const asHead = head === entity, key = `${asHead} ${relation}`;
    if (!found.has(key)) found.set(key, { relation, asHead, others: [] });
    found.get(key).others.push(asHead ? tail : head);
  }
  return [...found.values()].sort((a, b) => b.asHead - a.asHead);
}

function section({ relation, asHead, others }, entity, visit, ask) {
  const question = asHead ? `${entity} ${relation} ?` : `? ${relation} ${entity}`;
  const go = () => ask(asHead ? { open: "tail", head: entity, relation } : { open: "head", relation, tail: entity });
  const rest = others.length - SHOWN;
  const list = el("ul", {}, ...others.slice(0, SHOWN).map((label) => el("li", {}, name(label, visit))));
  if (rest > 0) list.append(el("li", { class: "quiet" }, `and ${count(rest)} more`));
  return [el("h4", {}, el("button", { type: "button", class: "link", title: "Ask this", onclick: go }, question)), list];
}
