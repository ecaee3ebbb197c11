"use strict";
// Names and ids reach the page only as text nodes; nothing here builds markup from data.
(() => {
  const page = JSON.parse(document.getElementById("assay-data").textContent);
  let charts = {};
  const MOST_BARS = 1200, LISTED = 8;
  const one = (id) => document.getElementById(id);
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const make = (name, text = "", attributes = {}) => {
    const element = document.createElement(name);
    element.textContent = text;
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };

  // Charts take the colour of the text around them, so that themes and print need no redrawing.
  const ink = "currentColor";
  const config = {
    background: null,
    font: "system-ui, sans-serif",
    view: { stroke: null },
    axis: {
      labelColor: ink, titleColor: ink, tickColor: ink, domainColor: ink, gridColor: ink,
      gridOpacity: 0.15, domainOpacity: 0.4, tickOpacity: 0.4, labelLimit: 150,
      labelFontSize: 12, titleFontSize: 12, titleFontWeight: "normal", titleLimit: 220,
    },
    legend: { labelColor: ink, titleColor: ink, labelFontSize: 12 },
    rule: { stroke: ink }, text: { fill: ink, fontSize: 12 },
  };
  // The interpreter of expressions needs no eval, so the page can forbid it.
  const settings = {
    logLevel: 1, mode: "vega-lite", renderer: "svg", actions: false, ast: true, defaultStyle: false, config,
    tooltip: { disableDefaultStyle: true },
  };

  const draw = (place, given) => {
    const narrow = place.clientWidth < 500;
    const spec = { ...given, width: "container", autosize: { type: "fit-x", contains: "padding" } };
    const axis = { ...config.axis, labelLimit: narrow ? 90 : 180 };
    const axisXDiscrete = { labelAngle: narrow ? -45 : 0 };
    place.dataset.drawn = "yes";
    place.replaceChildren();
    return vegaEmbed(place, spec, { ...settings, config: { ...config, axis, axisXDiscrete } }).catch((error) => {
      place.classList.add("failed");
      place.textContent = `This chart could not be drawn: ${error.message}`;
    });
  };
  const drawVisible = () => {
    for (const place of all(".chart[data-chart]:not([data-drawn])")) {
      const spec = charts[place.dataset.chart];
      if (spec && place.clientWidth && !place.dataset.chart.startsWith("differences")) draw(place, spec);
    }
  };

  // Tables: sort, copy, download.
  const exact = (cell) => cell.dataset.x ?? cell.textContent;
  const guarded = (text) => (/^[=+\-@\t\r]/.test(text) ? `'${text}` : text);
  const quoted = (text) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const grid = (table) => all("tr", table).map((row) => [...row.cells].map(exact));
  const csv = (rows) => rows.map((row) => row.map(quoted).join(",")).join("\r\n") + "\r\n";
  const download = (name, text) => {
    const url = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
    const link = make("a", "", { href: url, download: `${name.replace(/[^\w.@-]+/g, "-")}.csv` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  };
  const copy = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = document.body.appendChild(make("textarea", text, { class: "skip" }));
      area.select();
      document.execCommand("copy");
      area.remove();
    }
  };
  const say = (button, word) => {
    const before = button.dataset.label ?? button.textContent;
    button.dataset.label = before;
    button.textContent = word;
    setTimeout(() => { button.textContent = before; }, 1500);
  };
  const sort = (header) => {
    const table = header.closest("table"), column = header.cellIndex;
    const up = header.getAttribute("aria-sort") === "descending";
    for (const other of all("th", table)) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", up ? "ascending" : "descending");
    const key = (row) => {
      const text = exact(row.cells[column]).replace(/^'/, "");
      const number = /^[<>]?\s*[+\-−[]*(\d|\.\d)/.test(text)
        ? parseFloat(text.replace("−", "-").replace(/^[<>[\s]+/, "")) : NaN;
      return { text, number };
    };
    const order = (a, b) => {
      if (Number.isNaN(a.number) !== Number.isNaN(b.number)) return Number.isNaN(a.number) ? 1 : -1;
      const found = Number.isNaN(a.number) ? a.text.localeCompare(b.text) : a.number - b.number;
      return up ? found : -found;
    };
    const rows = [...table.tBodies[0].rows].map((row) => [key(row), row]);
    rows.sort((a, b) => order(a[0], b[0]));
    table.tBodies[0].append(...rows.map((pair) => pair[1]));
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    const figure = button.closest("figure.table");
    if (button.dataset.do === "csv") download(figure.dataset.file, csv(grid(figure)));
    if (button.dataset.do === "copy") {
      copy(grid(figure).map((row) => row.join("\t")).join("\n")).then(() => say(button, "Copied"));
    }
    if (button.parentElement.tagName === "TH") sort(button.parentElement);
  });

  // Packed per-query values: see pack_values in html.py.
  const unpacked = new Map();
  const values = async (measure) => {
    if (!unpacked.has(measure)) unpacked.set(measure, await unpack(page.values.measures[measure]));
    return unpacked.get(measure);
  };
  const inflated = (text) => {
    const bytes = Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip")));
  };
  const unpack = async (packed) => {
    const data = new Uint8Array(await inflated(packed.data).arrayBuffer());
    if (packed.kind === "floats") return new Float32Array(data.buffer);
    const half = data.length / 2, found = new Float64Array(half);
    for (let i = 0; i < half; i += 1) {
      const steps = data[i] + 256 * data[half + i];
      found[i] = steps === 65535 ? NaN : steps / 10000;
    }
    return found;
  };

  const chosen = () => Number(one("measure")?.value ?? 0);
  const compareQueries = async () => {
    const measure = chosen(), place = all('.chart[data-chart^="differences"]')[0];
    if (!place) return;
    const a = Number(one("first").value), b = Number(one("second").value);
    const note = one("difference-note"), listing = one("difference-table");
    place.replaceChildren();
    listing.replaceChildren();
    if (measure >= page.values.measures.length) {
      note.textContent = "This page does not contain per-query values of this measure (too many queries); "
        + "assay eval --per-query prints them.";
      return;
    }
    const found = await values(measure), queries = page.values.queries, n = queries.length;
    let rows = queries.map((query, i) => ({ query, a: found[a * n + i], b: found[b * n + i] }));
    rows = rows.filter((row) => !Number.isNaN(row.a - row.b));
    // Whole steps of the fourth decimal: equal values must differ by exactly 0.
    for (const row of rows) row.difference = Math.round((row.a - row.b) * 10000) / 10000;
    rows.sort((left, right) => right.difference - left.difference);
    const won = rows.filter((row) => row.difference > 0).length;
    const lost = rows.filter((row) => row.difference < 0).length;
    const step = Math.max(1, rows.length / MOST_BARS);
    const bars = [];
    for (let i = 0; i < rows.length; i += step) {
      bars.push({ ...rows[Math.floor(i)], place: i, after: Math.min(i + step, rows.length) });
    }
    note.textContent = `${page.runs[a]} − ${page.runs[b]} on ${page.measures[measure]}: `
      + `better on ${won}, equal on ${rows.length - won - lost}, worse on ${lost} of ${rows.length} queries.`
      + (step > 1 ? ` The chart shows ${bars.length} of them, evenly spaced.` : "");
    const spec = structuredClone(charts[place.dataset.chart]);
    spec.data = { values: bars };
    spec.encoding.y.title = `difference in ${page.measures[measure]}`;
    spec.encoding.x.scale = { ...spec.encoding.x.scale, domain: [0, Math.max(rows.length, 1)] };
    await draw(place, spec);
    const extremes = rows.length > 2 * LISTED
      ? [...rows.slice(0, LISTED), ...rows.slice(-LISTED)] : rows;
    listing.append(queryTable(extremes, page.runs[a], page.runs[b], measure));
  };
  const queryTable = (rows, first, second, measure) => {
    const figure = make("figure", "", { class: "table", "data-file": `queries ${page.measures[measure]}` });
    const caption = figure.appendChild(make("figcaption", "Queries with the largest differences"));
    const tools = caption.appendChild(make("span", "", { class: "tools" }));
    tools.append(make("button", "Copy", { type: "button", "data-do": "copy" }));
    tools.append(make("button", "CSV", { type: "button", "data-do": "csv" }));
    const scroll = figure.appendChild(
      make("div", "", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Queries with the largest differences" }));
    const table = scroll.appendChild(make("table"));
    const head = table.createTHead().insertRow();
    ["query", first, second, "difference"].forEach((name, i) => {
      const cell = head.appendChild(make("th", "", { scope: "col", ...(i ? { class: "n" } : {}), "data-x": guarded(name) }));
      cell.append(make("button", name, { type: "button" }));
    });
    const body = table.createTBody();
    for (const row of rows) {
      const line = body.insertRow();
      line.append(make("td", row.query, { "data-x": guarded(row.query) }));
      for (const [value, sign] of [[row.a, ""], [row.b, ""], [row.difference, row.difference > 0 ? "+" : ""]]) {
        line.append(make("td", sign + value.toFixed(4), { class: "n", "data-x": String(value) }));
      }
    }
    return figure;
  };
  const downloadAll = async () => {
    const rows = [["query", "run", ...page.measures.slice(0, page.values.measures.length)].map(guarded)];
    const columns = await Promise.all(page.values.measures.map((_, i) => values(i)));
    page.values.queries.forEach((query, i) => page.runs.forEach((run, r) => {
      const at = r * page.values.queries.length + i;
      const numbers = columns.map((column) => (Number.isNaN(column[at]) ? "" : String(column[at])));
      rows.push([guarded(query), guarded(run), ...numbers]);
    }));
    download("per-query values", csv(rows));
  };

  const show = () => {
    for (const part of all("[data-measure]")) part.hidden = Number(part.dataset.measure) !== chosen();
    for (const section of all("main > section")) {
      const parts = all("[data-measure]", section);
      if (parts.length && !section.querySelector(".chart:not([data-measure] .chart)")) {
        section.hidden = parts.every((part) => part.hidden);
      }
    }
    drawVisible();
    return compareQueries();
  };

  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";
  const nameTheme = () => { one("theme").textContent = isDark() ? "Light" : "Dark"; };
  one("theme").addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    nameTheme();
  });
  dark.addEventListener("change", nameTheme);
  nameTheme();

  // Open all details elements for printing, and close them again afterwards.
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = all("details:not([open])");
    for (const fold of folded) fold.open = true;
  });
  addEventListener("afterprint", () => { for (const fold of folded) fold.open = false; });

  one("measure")?.addEventListener("change", show);
  one("first")?.addEventListener("change", compareQueries);
  one("second")?.addEventListener("change", compareQueries);
  one("all-values")?.addEventListener("click", downloadAll);
  // The security policy of the page names the hash of this script; no other can run.
  const start = async () => {
    charts = JSON.parse(await inflated(page.charts).text());
    document.head.append(make("script", await inflated(page.drawing).text()));
    await show();
  };
  start().catch((error) => {
    document.body.prepend(make("p", `Charts require a browser from 2023 or later: ${error.message}`, { class: "note" }));
  }).finally(() => { document.documentElement.dataset.ready = "yes"; });
})();
