// The explorer: the address's hash is the state; every view follows from it.
import { get } from "./api.js";
import { Answers } from "./answers.js";
import { combobox } from "./combobox.js";
import { $, count, el, percent } from "./dom.js";
import { showEntity } from "./panel.js";
import { logit, sigmoid } from "./odds.js";
import { showStats } from "./stats.js";

const PARTS = ["head", "relation", "tail"];
const PAGE = 15;
let about, relations, answers, state = {}, shown = PAGE, asking = null, looking = null, entityShown = "";

// -- the hash --------------------------------------------------------------------------------------------------

function readHash() {
  const given = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  const completeness = Number(given.completeness), coverage = Number(given.coverage);
  return {
    head: given.head ?? "", relation: given.relation ?? "", tail: given.tail ?? "",
    open: PARTS.includes(given.open) ? given.open : "tail", entity: given.entity ?? "",
    completeness: about.shifts.length && completeness > 0 && completeness < 1 ? completeness : null, // null: the run's
    coverage: Number.isInteger(coverage) && coverage >= 1 && coverage <= 99 ? coverage : 90,
    newOnly: given.new === "1", inRange: given.range === "1",
  };
}

function hashOf(next) {
  const kept = { open: next.open, head: next.head, relation: next.relation, tail: next.tail, entity: next.entity };
  if (next.completeness !== null) kept.completeness = String(next.completeness);
  if (next.coverage !== 90) kept.coverage = String(next.coverage);
  if (next.newOnly) kept.new = "1";
  if (next.inRange) kept.range = "1";
  return `#${new URLSearchParams(Object.entries(kept).filter(([, value]) => value))}`;
}

function go(change) {
  const hash = hashOf({ ...state, ...change });
  if (hash === location.hash) render(); else location.hash = hash;
}

// -- the views -------------------------------------------------------------------------------------------------

function render() {
  const before = state;
  state = readHash();
  for (const part of PARTS) {
    if (document.activeElement !== $(part) || part === "relation") $(part).value = state[part];
    document.querySelector(`[data-part=${part}]`).classList.toggle("open", state.open === part);
  }
  document.querySelector(`input[name=open][value=${state.open}]`).checked = true;
  $("new-only").checked = state.newOnly;
  $("in-range").checked = state.inRange;
  $("in-range").disabled = state.open === "relation";
  $("coverage").value = state.coverage;
  const asked = (one) => JSON.stringify([...PARTS.map((p) => (p === one.open ? "" : one[p])), one.open, one.newOnly, one.inRange]);
  if (asked(before.open ? before : { open: "" }) !== asked(state)) { shown = PAGE; ask(); } else showDials();
  const entity = state.entity || (state.open === "head" ? state.tail : state.head);
  if (entity && entity !== entityShown) lookAt(entity);
}

const assumed = () => state.completeness ?? about.completeness;

function showDials() {
  const completeness = assumed();
  $("completeness").disabled = completeness === null;
  if (completeness !== null) {
    if (document.activeElement !== $("completeness")) $("completeness").value = logit(completeness);
    $("completeness-value").textContent = percent(completeness);
    $("completeness").setAttribute("aria-valuetext", percent(completeness));
    $("completeness-run").textContent = `back to ${percent(about.completeness)}`;
    $("completeness-run").hidden = state.completeness === null;
  }
  $("coverage-value").textContent = `${state.coverage}%`;
  $("coverage").setAttribute("aria-valuetext", `${state.coverage} percent`);
  answers.show(completeness, state.coverage);
}

async function ask() {
  asking?.abort();
  asking = new AbortController();
  const question = Object.fromEntries(PARTS.filter((part) => part !== state.open).map((part) => [part, state[part]]));
  const gap = PARTS.find((part) => part !== state.open && !state[part]);
  $("answers-title").textContent = PARTS.map((part) => (part === state.open ? "?" : state[part] || "…")).join("  ");
  document.title = `${$("answers-title").textContent} · staypositive`;
  if (gap) { $("answers").replaceChildren(); $("question-note").textContent = ""; $("more").hidden = true; $("answers-note").textContent = `Choose a ${gap}.`; answers.rows = []; answers.sizes = null; return showDials(); }
  $("answers-card").setAttribute("aria-busy", "true");
  $("answers").classList.add("busy");
  try {
    const options = { top: shown, exclude_known: state.newOnly, exclude_self: true };
    if (state.inRange && state.open !== "relation") options.candidates = "range";
    const number = await answers.ask(question, options, asking.signal);
    $("more").hidden = number < shown || shown >= about.limits.top;
    $("answers-note").textContent = number ? "" : "No answer is left.";
    complain(null);
    showDials();
  } catch (error) {
    if (error.name === "AbortError") return;
    complain(error);
  }
  $("answers").classList.remove("busy");
  $("answers-card").setAttribute("aria-busy", "false");
}

async function lookAt(entity) {
  looking?.abort();
  looking = new AbortController();
  entityShown = entity;
  try {
    await showEntity(entity, visit, (question) => go({ head: "", tail: "", ...question, entity }), looking.signal);
  } catch (error) {
    if (error.name !== "AbortError") complain(error);
  }
}

function complain(error) {
  $("alert").hidden = !error;
  if (!error) return;
  const fix = (label) => el("button", { type: "button", onclick: () => go(corrected(label)) }, label);
  $("alert").replaceChildren(error.message, ...(error.suggestions ?? []).map(fix));
}

function corrected(label) {
  const wrong = PARTS.find((part) => part !== state.open && $("alert").textContent.includes(`'${state[part]}'`));
  return { ...(wrong ? { [wrong]: label } : {}), entity: wrong === "relation" ? state.entity : label };
}

// -- what people do --------------------------------------------------------------------------------------------

const visit = (entity) => { go({ entity }); };

// A found entity is looked at, and takes the place of the one that the question is about.
function find(entity) {
  const part = state.open === "head" ? "tail" : "head";
  go({ entity, [part]: entity });
  $("search").value = "";
  $("search").blur();
}

function openPart(open) {
  const change = { open };
  if (open === "head" && !state.tail) change.tail = state.head;
  if (open === "tail" && !state.head) change.head = state.tail;
  go(change);
}

const recount = () => { if ($("stats").open) showStats(state.completeness, answers); };

let later = 0;
function dial(change) {
  state = { ...state, ...change };
  showDials(); // at once; the address follows when the hand rests
  clearTimeout(later);
  later = setTimeout(() => { history.replaceState(null, "", hashOf(state)); }, 150);
}

function wire() {
  combobox($("search"), find);
  for (const part of ["head", "tail"]) combobox($(part), (label) => { $(part).value = label; go({ [part]: label, entity: label }); $(part).blur(); });
  $("relation").addEventListener("change", (event) => go({ relation: event.target.value }));
  for (const radio of document.querySelectorAll("input[name=open]")) radio.addEventListener("change", () => openPart(radio.value));
  $("new-only").addEventListener("change", (event) => go({ newOnly: event.target.checked }));
  $("in-range").addEventListener("change", (event) => go({ inRange: event.target.checked }));
  $("completeness").addEventListener("input", (event) => dial({ completeness: Number(sigmoid(Number(event.target.value)).toFixed(8)) }));
  $("completeness").addEventListener("change", recount);
  $("completeness-run").addEventListener("click", () => { dial({ completeness: null }); recount(); });
  $("coverage").addEventListener("input", (event) => dial({ coverage: Number(event.target.value) }));
  $("stats").addEventListener("toggle", recount);
  $("more").addEventListener("click", () => { shown = Math.min(about.limits.top, shown * 3); ask(); });
  $("theme").addEventListener("click", () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark", true));
  addEventListener("hashchange", render);
  addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.target.matches("input, select, textarea") || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    $("search").focus();
  });
}

function setTheme(theme, keep = false) {
  document.documentElement.dataset.theme = theme;
  if (keep) localStorage.setItem("staypositive-theme", theme);
}

async function start() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const chosen = localStorage.getItem("staypositive-theme");
  setTheme(chosen ?? (dark.matches ? "dark" : "light"));
  dark.addEventListener("change", () => { if (!localStorage.getItem("staypositive-theme")) setTheme(dark.matches ? "dark" : "light"); });
  try {
    about = await get("run");
    relations = new Map((await get("relations")).relations.map((one) => [one.relation, one]));
    $("relation").replaceChildren(...[...relations.keys()].map((relation) => el("option", { value: relation }, relation)));
  } catch (error) {
    return complain(error);
  }
  answers = new Answers(about.shifts, visit);
  $("about").textContent = `${about.name}: ${count(about.graph.entities)} entities, ${count(about.graph.relations)} relations · ${about.model}, ${about.objective}`;
  wire();
  if (about.shifts.length) Object.assign($("completeness"), { min: logit(about.shifts[0][0]), max: logit(about.shifts.at(-1)[0]) });
  else {
    $("completeness").closest(".dial").classList.add("off");
    $("completeness-note").textContent = `These are scores, without probabilities: ${about.no_probability}.`;
  }
  if (location.hash.length > 1) return render();
  history.replaceState(null, "", hashOf({ ...readHash(), head: about.example.head, relation: about.example.relation, entity: about.example.head }));
  render();
}

start();
