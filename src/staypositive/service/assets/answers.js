// The list of answers: bars that follow the completeness, marks that follow the coverage, and what supports each.
import { post } from "./api.js";
import { $, bar, count, el, percent } from "./dom.js";
import { shiftOf, sigmoid } from "./odds.js";

const MEANING = "Support: how far a small training step that raises the fact's score would raise this answer's, " +
  "through the rows both share (the product of their gradients); 1 is what a step on the answer itself would do.";

export class Answers {
  constructor(shifts, visit) {
    this.shifts = shifts;
    this.visit = visit;
    this.rows = [];
  }

  async ask(question, options, signal) {
    const reply = await post("predict", { ...question, ...options, coverages: true }, signal);
    this.missing = reply.missing;
    this.sizes = reply.set_sizes;
    this.rows = reply.answers.map((answer, place) => this.row(answer, place + 1));
    $("answers").replaceChildren(...this.rows.map((row) => row.item));
    $("question-note").textContent = reply.note ? `${reply.note[0].toUpperCase()}${reply.note.slice(1)}.` : "";
    return reply.answers.length;
  }

  row(answer, place) {
    const label = answer[this.missing || "tail"];
    const track = bar(0), chance = answer.known ? el("span", { class: "badge" }, "known") : el("span", { class: "chance" });
    const name = this.missing === "relation" ? el("span", { class: "name" }, label)
      : el("button", { type: "button", class: "name", onclick: () => this.visit(label) }, label);
    const why = el("button", { type: "button", class: "link why", "aria-expanded": "false", "aria-label": `Why ${label}?` }, "why");
    const item = el("li", { class: answer.known ? "answer known" : "answer" }, el("div", { class: "line" },
      el("span", { class: "rank" }, String(place)), name, track, chance, why));
    track.classList.toggle("none", answer.known || answer.log_odds === null);
    why.addEventListener("click", () => this.explain(item, why, answer));
    return { answer, item, chance, inner: track.firstChild };
  }

  // At once, without the server: log-odds at the run's completeness are at hand. Known facts have no probability.
  show(completeness, coverage) {
    const shift = completeness === null ? 0 : shiftOf(completeness, this.shifts);
    for (const { answer, item, chance, inner } of this.rows) {
      const now = answer.known || answer.log_odds === null ? null : sigmoid(answer.log_odds + shift);
      if (!answer.known) chance.textContent = now === null ? answer.score.toFixed(3) : percent(now);
      inner.style.transform = `scaleX(${now ?? 0})`;
      item.classList.toggle("inset", answer.entry_coverage !== null && coverage / 100 > answer.entry_coverage);
    }
    const size = this.sizes?.[coverage - 1];
    $("coverage-note").textContent = size === undefined ? "Prediction sets need an open head or tail, and held-out facts."
      : size === 0 ? "No new answer is likely enough: the set is empty."
      : `${count(size)} new ${size === 1 ? "answer holds" : "answers hold"} the true, yet unknown one this often.`;
    $("coverage").closest(".dial").classList.toggle("off", size === undefined);
  }

  async explain(item, why, { head, relation, tail }) {
    const open = item.querySelector(".support");
    why.setAttribute("aria-expanded", String(!open));
    if (open) return open.remove();
    const box = el("div", { class: "support" }, el("p", { class: "quiet" }, "Looking …"));
    item.append(box);
    try {
      const { facts } = await post("explain", { head, relation, tail, top: 6 });
      const most = Math.max(...facts.map((fact) => fact.support), 1e-9);
      box.replaceChildren(el("ol", {}, ...facts.map((fact) => el("li", {}, this.sentence(fact),
        bar(fact.support / most), el("span", { class: "number" }, fact.support.toFixed(2))))),
      el("p", { class: "quiet" }, facts.length ? MEANING : "No training fact supports this answer."));
    } catch (error) {
      box.replaceChildren(el("p", { class: "quiet" }, error.message));
    }
  }

  sentence({ head, relation, tail }) {
    const to = (label) => el("button", { type: "button", class: "name", onclick: () => this.visit(label) }, label);
    return el("span", {}, to(head), el("span", { class: "relation" }, ` ${relation} `), to(tail));
  }
}
