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
    form.addEventListener("submit", () => {
      for (const field of form.elements) if (field.name && !field.value) field.disabled = true;
    });
    addEventListener("pageshow", () => { for (const field of form.elements) field.disabled = false; });
  }

  // The compare button shows how many runs are selected.
  const compare = one("#compare-chosen");
  const selected = () => all("input[name=run]:checked").length;
  const count = () => {
    const n = selected();
    compare.disabled = n < 2;
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
          const bar = shown.querySelector("progress");
          if (bar && run.total > 0) { bar.max = run.total; bar.value = run.done; }
        }
      }
    } catch { /* the server is unreachable: try again later */ }
    setTimeout(follow, document.hidden ? 10000 : 2000);
  };
  if (place) setTimeout(follow, 1000);
  document.documentElement.dataset.ready = "yes";
})();
