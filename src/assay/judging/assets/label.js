// The page shows what the server says and holds no label: each is on disk before the next pair comes.
"use strict";
const at = (id) => document.getElementById(id);
let shown = null, since = 0, busy = false, by = localStorage.getItem("assay-labeller") || "";

function fill(node, pieces) {
  node.replaceChildren(...pieces.map(([text, marked]) => {
    const part = marked ? document.createElement("mark") : document.createTextNode(text);
    if (marked) part.textContent = text;
    return part;
  }));
}

function gradeButton(grade, words) {
  const button = document.createElement("button"), key = document.createElement("kbd");
  button.type = "button";
  key.textContent = grade;
  button.append(key, words);
  button.addEventListener("click", () => send({ grade, state: "label" }));
  return button;
}

function render(data) {
  const asks = !data.by;
  at("name-form").hidden = !asks;
  at("pair").hidden = asks || !data.pair;
  at("done").hidden = asks || Boolean(data.pair);
  at("error").textContent = "";
  document.documentElement.dataset.ready = "";
  if (asks) { at("name").value = by; at("name").focus(); return; }
  by = data.by;
  const p = data.progress, pace = p.an_hour ? ` · ${p.an_hour} an hour` : "";
  at("progress").textContent = `${p.all} of ${p.total} pairs labelled · ${p.mine} by ${by}${pace}`;
  at("status").textContent = data.status || "";
  shown = data.pair;
  if (!shown) return;
  at("query").textContent = data.query;
  at("description").textContent = data.description;
  at("best").hidden = !data.passage.length;
  fill(at("passage"), data.passage);
  fill(at("text"), data.text);
  at("grades").replaceChildren(...data.scale.map((g) => gradeButton(g, data.guidelines[g])));
  at("note").value = "";
  since = performance.now();
  scrollTo(0, 0);
}

async function ask(path, body) {
  if (busy) return; // a key pressed twice is one label
  busy = true;
  document.body.dataset.busy = "yes";
  try {
    const about = body && { method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json" } };
    const answer = await fetch(path, about || {});
    const data = await answer.json();
    if (answer.ok) render(data);
    else at("error").textContent = `Not recorded: ${data.error}`;
  } catch (error) {
    at("error").textContent = "Not recorded: the server does not answer. Start it again, then repeat this label.";
  } finally {
    busy = false;
    delete document.body.dataset.busy;
  }
}

function send(decision) {
  if (!shown) return;
  const seconds = (performance.now() - since) / 1000;
  ask("/label", { by, pair: shown, note: at("note").value, seconds, ...decision });
}

at("skip").addEventListener("click", () => send({ state: "skip" }));
at("cannot").addEventListener("click", () => send({ state: "cannot" }));
at("undo").addEventListener("click", () => ask("/undo", { by }));
at("name-form").addEventListener("submit", (event) => {
  event.preventDefault();
  by = at("name").value.trim();
  at("name").blur();
  localStorage.setItem("assay-labeller", by);
  ask(`/state?by=${encodeURIComponent(by)}`);
});
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  if (event.target.tagName === "INPUT") {
    if (event.key === "Escape" || (event.key === "Enter" && event.target.id === "note")) event.target.blur();
    return;
  }
  if (event.key === "u" && by) ask("/undo", { by });
  if (!shown) return;
  const place = [...at("grades").children].findIndex((b) => b.firstChild.textContent === event.key);
  if (place >= 0) at("grades").children[place].click();
  else if (event.key === "s") send({ state: "skip" });
  else if (event.key === "c") send({ state: "cannot" });
  else if (event.key === "n") { event.preventDefault(); at("note").focus(); }
});
ask(by ? `/state?by=${encodeURIComponent(by)}` : "/state");
