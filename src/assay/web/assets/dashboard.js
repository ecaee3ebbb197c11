"use strict";
// Every page is whole without this script; it adds a theme switch, live progress and shortcuts.
(() => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const one = (selector) => document.querySelector(selector);

  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";
  const button = one("#theme");
  const nameTheme = () => { button.textContent = isDark() ? "Light" : "Dark"; };
  button.hidden = false;
  button.addEventListener("click", () => {
    const theme = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
    try { localStorage.setItem("assay-theme", theme); } catch { /* this page only */ }
    nameTheme();
  });
  dark.addEventListener("change", nameTheme);
  nameTheme();

  // A selector submits its form on change; the button is for browsers without scripts.
  for (const form of all("form[data-at-once]")) {
    form.addEventListener("change", () => form.requestSubmit());
    for (const send of form.querySelectorAll("[data-send]")) send.hidden = true;
  }
  // Empty fields would only lengthen the address.
  for (const form of all("form[data-short]")) {
    const columns = [...form.querySelectorAll("details[data-usual] input")];
    const start = columns.map((box) => box.checked).join();
    form.addEventListener("submit", () => {
      for (const field of form.elements) if (field.name && !field.value) field.disabled = true;
      const same = columns.map((box) => box.checked).join() === start;
      if (same) for (const box of columns) box.disabled = true; // nobody chose any
    });
    addEventListener("pageshow", () => { for (const field of form.elements) field.disabled = false; });
  }

  // A view is an address; this browser keeps those that got a name.
  const views = one("[data-views]");
  const key = "assay-views";
  const read = () => {
    try {
      const found = JSON.parse(localStorage.getItem(key) ?? "[]");
      return found.filter((view) => typeof view.name === "string" && /^\?/.test(view.search));
    } catch { return []; }
  };
  const write = (found) => {
    try { localStorage.setItem(key, JSON.stringify(found)); } catch { /* this page only */ }
    list(found);
  };
  const list = (found) => {
    const saved = views.querySelector("[data-saved]");
    saved.replaceChildren(...found.flatMap((view) => {
      const link = document.createElement("a");
      link.href = `/runs${view.search}`;
      link.textContent = view.name;
      if (view.search === location.search) link.setAttribute("aria-current", "true");
      const drop = document.createElement("button");
      drop.type = "button";
      drop.textContent = "×";
      drop.setAttribute("aria-label", `Forget the view ${view.name}`);
      drop.addEventListener("click", () => write(read().filter((other) => other.name !== view.name)));
      return [link, drop];
    }));
  };
  if (views) {
    views.hidden = false;
    list(read());
    const form = views.querySelector("form");
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const name = form.elements.view.value.trim();
      if (!name) return;
      form.reset();
      const search = location.search || "?";
      write([...read().filter((view) => view.name !== name), { name, search }]);
    });
  }

  // The compare button shows how many runs are selected.
  const compare = one("#compare-chosen");
  const diff = one("#diff-chosen");
  const selected = () => all("input[name=run]:checked").length;
  const count = () => {
    const n = selected();
    compare.disabled = diff.disabled = n < 2;
    compare.textContent = n < 2 ? "Select runs to compare" : `Compare ${n} runs`;
  };
  if (compare) {
    addEventListener("change", count);
    addEventListener("pageshow", count);
    count();
  }

  // Running runs: poll the JSON twin of the page, and reload when one has ended.
  const place = one("[data-live]");
  const states = (data) => (data.run ? [data.run] : data.runs ?? []);
  const follow = async () => {
    try {
      const answer = await fetch(place.dataset.live, { headers: { accept: "application/json" } });
      if (answer.ok) {
        for (const run of states(await answer.json())) {
          const shown = one(`[data-run="${Number(run.id)}"]`);
          if (!shown) continue;
          if (run.status !== "running") {
            if (!selected()) { location.reload(); return; }
            shown.textContent = run.status;
            continue;
          }
          shown.querySelector("[data-words]").textContent = run.shown_status;
          if (run.total > 0) {
            const bar = shown.querySelector("progress") ?? shown.appendChild(document.createElement("progress"));
            bar.max = run.total;
            bar.value = run.done;
          }
        }
      }
    } catch { /* the server is unreachable: try again later */ }
    setTimeout(follow, document.hidden ? 10000 : 2000);
  };
  if (place) setTimeout(follow, 1000);
  document.documentElement.dataset.ready = "yes";
})();
