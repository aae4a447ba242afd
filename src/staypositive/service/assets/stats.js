// Every possible triple of each relation: exact mean and standard deviation, new facts to expect, and the likeliest ones.
import { get, post } from "./api.js";
import { $, count, el, percent, svg } from "./dom.js";

const LEAST = 0.0001; // probability of a new fact that is listed

export async function showStats(completeness, answers) {
  const body = $("stats-body");
  try {
    const { rows, threshold, completeness: assumed } = await get("stats", { ...(completeness === null ? {} : { completeness }), threshold: 0.5 });
    const own = rows.filter((row) => row.relation !== "(all)");
    const low = Math.min(0, ...own.map((row) => row.mean - 2 * row.std));
    const high = Math.max(0, ...own.map((row) => row.mean + 2 * row.std));
    const found = el("div", { role: "status" });
    const counted = assumed === null ? [] : ["new facts to expect, ±", `likely (≥ ${100 * threshold}%)`];
    const header = ["relation", "facts", "all its scores: mean ± standard deviation", ...counted, ""];
    body.replaceChildren(
      el("p", { class: "quiet" }, "Means and standard deviations of all scores are exact." +
        (assumed === null ? "" : ` New facts are true triples that the graph lacks, if it has ${percent(assumed)} of all true facts.`)),
      el("div", { class: "scroll" }, el("table", {}, el("thead", {}, el("tr", {}, ...header.map((text) => el("th", { scope: "col" }, text)))),
        el("tbody", {}, ...own.map((row) => line(row, low, high, completeness, found, answers))))), found);
  } catch (error) {
    body.replaceChildren(el("p", { class: "quiet" }, error.message));
  }
}

function line(row, low, high, completeness, found, answers) {
  const discover = el("button", { type: "button", class: "link", "aria-label": `New facts of ${row.relation}` }, "new facts");
  discover.addEventListener("click", () => showNew(row.relation, completeness, found, answers));
  return el("tr", {}, el("td", {}, row.relation), el("td", {}, count(row.facts)), el("td", {}, glyph(row, low, high)),
    ...(row.new_facts === null ? [] : [`${tenths(row.new_facts)} ± ${tenths(row.new_error)}`, tenths(row.likely)]).map((text) => el("td", {}, text)),
    el("td", {}, discover));
}

const tenths = (number) => (number < 10 ? number.toFixed(1) : count(Math.round(number)));

function glyph({ mean, std }, low, high) {
  const at = (score) => 4 + (172 * (score - low)) / (high - low || 1);
  return svg("svg", { width: 180, height: 16, viewBox: "0 0 180 16", role: "img", "aria-label": `${mean.toFixed(3)} ± ${std.toFixed(3)}` },
    svg("title", {}, `${mean.toFixed(3)} ± ${std.toFixed(3)}`),
    svg("line", { class: "zero", x1: at(0), x2: at(0), y1: 1, y2: 15 }),
    svg("line", { x1: at(mean - std), x2: at(mean + std), y1: 8, y2: 8 }), svg("circle", { cx: at(mean), cy: 8, r: 3.5 }));
}

async function showNew(relation, completeness, found, answers) {
  found.replaceChildren(el("p", { class: "quiet" }, "Looking …"));
  try {
    const reply = await post("discover", { relations: [relation], completeness, min_probability: LEAST, top: 10 });
    const list = reply.triples.map((triple) => el("li", {}, answers.sentence(triple), el("span", { class: "number" }, triple.probability === null ? triple.score.toFixed(3) : percent(triple.probability))));
    found.replaceChildren(el("h3", {}, `${reply.completeness === null ? "New triples of the highest score" : "Likeliest new facts"}: ${relation}`), list.length ? el("ol", { class: "found" }, ...list)
      : el("p", { class: "quiet" }, `None reaches ${percent(LEAST)} at this completeness.`));
  } catch (error) {
    found.replaceChildren(el("p", { class: "quiet" }, error.message));
  }
}
