// The API's documentation, made from its own OpenAPI schema: nothing is fetched from elsewhere.
import { fetchSchema, get } from "./api.js";
import { $, el } from "./dom.js";

const resolve = (schema, part) => (part?.$ref ? schema.components.schemas[part.$ref.split("/").pop()] : part);

function kind(part) {
  if (!part) return "";
  if (part.$ref) return part.$ref.split("/").pop();
  if (part.const !== undefined) return JSON.stringify(part.const);
  if (part.enum) return part.enum.map((one) => JSON.stringify(one)).join(" | ");
  if (part.anyOf) return part.anyOf.map(kind).join(" | ");
  if (part.type === "array") return `[${kind(part.items ?? part.prefixItems?.[0])}]`;
  return part.type ?? "";
}

function bounds(part) {
  const parts = [part, ...(part.anyOf ?? [])], said = [];
  for (const one of parts) {
    for (const [key, sign] of [["exclusiveMinimum", ">"], ["minimum", "≥"], ["exclusiveMaximum", "<"], ["maximum", "≤"], ["maxLength", "length ≤"], ["maxItems", "items ≤"]]) {
      if (one[key] !== undefined) said.push(`${sign} ${one[key].toLocaleString("en")}`);
    }
  }
  if (part.default !== undefined && part.default !== null) said.push(`default ${JSON.stringify(part.default)}`);
  return said.join(", ");
}

function table(header, rows) {
  const line = (cells, tag) => el("tr", {}, ...cells.map((cell) => el(tag, {}, cell)));
  return el("table", {}, el("thead", {}, line(header, "th")), el("tbody", {}, ...rows.map((row) => line(row, "td"))));
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

// A call that works on this very graph: a fact of it fills the blanks.
function example(path, verb, spec, body, fact) {
  const { head, relation, tail } = fact;
  const known = { head, relation, tail, entity: head, queries: [{ head, relation }], triples: [fact], relations: [relation] };
  const needed = (spec.parameters ?? []).filter((one) => one.required).map((one) => [one.name, known[one.name]]);
  const query = needed.length ? `?${new URLSearchParams(needed)}` : "";
  const address = quoted(`${location.origin}${path}${query}`);
  if (verb === "get") return `curl ${address}`;
  const names = body.required ?? ["head", "relation"];
  const data = JSON.stringify(Object.fromEntries(names.map((name) => [name, known[name]])));
  return `curl ${address} -H 'content-type: application/json' -d ${quoted(data)}`;
}

function endpoint(schema, path, verb, spec, fact) {
  const body = resolve(schema, spec.requestBody?.content["application/json"].schema);
  const rows = [
    ...(spec.parameters ?? []).map((one) => [one.name, kind(one.schema), bounds(one.schema), one.description ?? ""]),
    ...Object.entries(body?.properties ?? {}).map(([name, part]) => [name, kind(part), bounds(part), part.description ?? ""]),
  ];
  const reply = resolve(schema, spec.responses["200"]?.content?.["application/json"]?.schema);
  const out = Object.entries(reply?.properties ?? {}).map(([name, part]) => [name, kind(part), part.description ?? ""]);
  return el("section", { class: "card", id: spec.operationId }, el("h2", {}, el("span", { class: "verb" }, verb.toUpperCase()), el("code", {}, path)),
    el("p", {}, spec.description ?? ""), el("pre", {}, example(path, verb, spec, body, fact)),
    ...(rows.length ? [el("h3", {}, "Takes"), table(["name", "type", "bounds", ""], rows)] : []), ...(out.length ? [el("h3", {}, "Gives"), table(["name", "type", ""], out)] : []));
}

document.documentElement.dataset.theme = localStorage.getItem("staypositive-theme")
  ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
const [schema, about] = [await fetchSchema(), await get("run")];
$("about").textContent = schema.info.summary;
for (const [path, verbs] of Object.entries(schema.paths)) {
  for (const [verb, spec] of Object.entries(verbs)) $("endpoints").append(endpoint(schema, path, verb, spec, about.example));
}
