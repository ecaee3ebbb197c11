"use strict";
// Names and ids reach the page only as text nodes; nothing here builds markup from data.
(() => {
  const page = JSON.parse(document.getElementById("assay-data").textContent);
  const MOST_BARS = 600, LISTED = 8, MOST_LISTED = 1000, LONG = 40;
  const one = (id) => document.getElementById(id);
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const make = (name, text = "", attributes = {}) => {
    const element = document.createElement(name);
    element.textContent = text;
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };
  const draw = (name, attributes = {}, text = "") => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.textContent = text;
    return element;
  };

  // What is chosen; the address of the page holds it, so that a link leads to the same view.
  const chosen = { measure: 0, first: 0, second: 0, query: null, systems: "" };
  let atFirst = {};

  // Tables: sort, copy, download.
  const exact = (cell) => cell.dataset.x ?? cell.textContent;
  const guarded = (text) => (/^[=+\-@\t\r]/.test(text) ? `'${text}` : text);
  const quoted = (text) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const cells = (row) => [...row.cells].filter((cell) => !cell.classList.contains("picture"));
  const grid = (table) => all("tr", table).map((row) => cells(row).map(exact));
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
  const nameOf = (row) => row.querySelector(".name") ?? row.cells[0];
  const key = (row, column) => {
    const text = exact(row.cells[column]).replace(/^'/, "");
    const number = /^[<>]?\s*[+\-−[]*(\d|\.\d)/.test(text)
      ? parseFloat(text.replace("−", "-").replace(/^[<>[\s]+/, "")) : NaN;
    return { text, number, last: nameOf(row).classList.contains("last") };
  };
  const sort = (header, up) => {
    const table = header.closest("table"), column = header.cellIndex;
    for (const other of all("th", table)) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", up ? "ascending" : "descending");
    const order = (a, b) => {
      if (a.last !== b.last) return a.last ? 1 : -1;
      if (Number.isNaN(a.number) !== Number.isNaN(b.number)) return Number.isNaN(a.number) ? 1 : -1;
      const found = Number.isNaN(a.number) ? a.text.localeCompare(b.text) : a.number - b.number;
      return up ? found : -found;
    };
    const rows = [...table.tBodies[0].rows].map((row) => [key(row, column), row]);
    rows.sort((a, b) => order(a[0], b[0]));
    table.tBodies[0].append(...rows.map((pair) => pair[1]));
  };
  // The first click shows the best: the largest, or where less is better and of names, the smallest.
  const turn = (header) => {
    const now = header.getAttribute("aria-sort");
    sort(header, now ? now === "descending" : header.hasAttribute("data-up"));
  };

  // A table that fits is not a box of its own: its head sticks to the top of the window.
  const fit = () => {
    const head = document.querySelector("header");
    const sticky = getComputedStyle(head).position === "sticky";
    document.documentElement.style.setProperty("--top", `${sticky ? head.offsetHeight : 0}px`);
    const boxes = all(".scroll:not(.long)");
    for (const box of boxes) box.classList.remove("fits");
    const fitting = boxes.filter((box) => box.scrollWidth <= box.clientWidth);
    for (const box of fitting) box.classList.add("fits");
    // The chosen measure beside the names, where not all measures fit.
    const shown = document.querySelector(".means th.on");
    const side = (cell, which) => cell.getBoundingClientRect()[which];
    if (shown) shown.closest(".scroll").scrollLeft += side(shown, "left") - side(shown.parentElement.cells[0], "right");
  };

  // Packed values: see packed.py.
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
  const told = {};
  const read = async (name, packed) => {
    if (packed && !told[name]) told[name] = await inflated(packed).json();
    return told[name];
  };

  // Query by query
  const queries = page.values.queries, alone = page.runs.length === 1;
  const fixed = (value) => (Number.isNaN(value) ? "–" : value.toFixed(4));
  const signed = (value) => (value > 0 ? "+" : "") + fixed(value);
  const minus = (text) => text.replaceAll("-", "−"); // in sentences; tables keep what programs read
  const count = (number) => number.toLocaleString("en");
  let rows = [], listedAll = false;

  const rowsOf = async () => {
    const found = await values(chosen.measure), n = queries.length;
    const at = (run, i) => found[run * n + i];
    const made = queries.map((query, i) => ({ query, i, a: at(chosen.first, i), b: alone ? 0 : at(chosen.second, i) }));
    const known = made.filter((row) => !Number.isNaN(row.a - row.b));
    // Whole steps of the fourth decimal: equal values must differ by exactly 0.
    for (const row of known) row.difference = Math.round((row.a - row.b) * 10000) / 10000;
    return known.sort((left, right) => right.difference - left.difference);
  };
  const compareQueries = async () => {
    const note = one("difference-note"), chart = one("difference-chart"), listing = one("difference-table");
    if (!note) return;
    for (const cell of all(".pairs td.on")) cell.classList.remove("on");
    if (chosen.measure >= page.values.measures.length) {
      rows = [];
      chart.replaceChildren();
      listing.replaceChildren();
      note.textContent = "This page does not contain per-query values of this measure (too many queries); "
        + "assay eval --per-query prints them.";
      return;
    }
    const found = await rowsOf();
    const pairs = await read("pairs", page.pairs);
    rows = found;
    note.textContent = describe(found, pairs?.[page.measures[chosen.measure]] ?? {});
    markPair();
    chart.replaceChildren(found.length ? bars(found) : "");
    list();
  };
  const describe = (found, pairs) => {
    const measure = page.measures[chosen.measure], n = found.length;
    if (alone) return `${page.runs[0]} on ${measure}, ${count(n)} queries, the best first.`;
    const won = found.filter((row) => row.difference > 0).length;
    const lost = found.filter((row) => row.difference < 0).length;
    const counts = `better on ${count(won)}, equal on ${count(n - won - lost)}, worse on ${count(lost)} of ${count(n)} queries.`;
    return `${page.runs[chosen.first]} − ${page.runs[chosen.second]} on ${measure}: ${tested(pairs)}${counts}`;
  };
  const SAID = { "not separable": "not significant", undecided: "not tested", contradictory: "unclear" };
  const tested = (pairs) => {
    const turned = !pairs[`${chosen.first},${chosen.second}`];
    const pair = pairs[turned ? `${chosen.second},${chosen.first}` : `${chosen.first},${chosen.second}`];
    if (!pair || pair[0] === "+nan") return "";
    const [difference, low, high] = pair.map(Number), sign = turned ? -1 : 1;
    const ends = [sign * low, sign * high].sort((a, b) => a - b).map(signed).join(" to ");
    const p = Number(pair[3]) === 0 ? "p < 0.0001" : `p = ${pair[3]}`;
    const numbers = [...(Number.isNaN(low) ? [] : [minus(`${page.interval} ${ends}`)]), ...(pair[3] === "nan" ? [] : [p])].join(", ");
    const words = { ...SAID, ...(turned ? { better: "worse", worse: "better" } : {}) }[pair[4]] ?? pair[4];
    return `${minus(signed(sign * difference))}${numbers && ` (${numbers})`}, ${words}; `;
  };
  const bars = (found) => {
    const step = Math.max(1, found.length / MOST_BARS), shown = [];
    for (let i = 0; i < found.length; i += step) shown.push(found[Math.floor(i)]);
    const ends = [Math.max(0, ...shown.map((row) => row.difference)), Math.min(0, ...shown.map((row) => row.difference))];
    const range = ends[0] - ends[1] || 1, y = (value) => (100 * (ends[0] - value)) / range;
    const width = 100 / shown.length;
    const plot = make("div", "", { class: "plot bars" });
    const axis = plot.appendChild(draw("svg", { class: "axis", "aria-hidden": "true" }));
    const label = `${one("difference-note").textContent} A bar for each query, the largest first; `
      + "the table below lists them.";
    const area = plot.appendChild(draw("svg", { class: "area", role: "img", "aria-label": label }));
    for (const tick of new Set([...ends, 0])) {
      const at = `${y(tick)}%`;
      axis.append(draw("text", { x: "100%", y: at, dy: ".35em" }, tick ? tick.toFixed(2) : "0"));
      area.append(draw("line", { x1: 0, x2: "100%", y1: at, y2: at, class: tick ? "grid" : "zero" }));
    }
    shown.forEach((row, place) => {
      const height = Math.max(Math.abs(row.difference) * 100 / range, 0.6);
      const bar = draw("rect", {
        x: `${place * width}%`, y: `${Math.min(y(Math.max(row.difference, 0)), 100 - height)}%`,
        width: `${width}%`, height: `${height}%`, class: row.difference >= 0 ? "win" : "loss", "data-query": row.i,
      });
      bar.append(draw("title", {}, `${row.query}: ${alone ? fixed(row.a) : signed(row.difference)}`));
      area.append(bar);
    });
    return plot;
  };

  // The list below the bars
  const matching = () => {
    const wanted = one("find").value.trim().toLowerCase(), texts = told.texts ?? [];
    if (!wanted) return rows;
    return rows.filter((row) => `${row.query}\n${texts[row.i] ?? ""}`.toLowerCase().includes(wanted));
  };
  const list = () => {
    const found = matching(), filtered = found.length < rows.length;
    const most = listedAll || filtered ? MOST_LISTED : 2 * LISTED;
    const some = found.length <= most ? found
      : [...found.slice(0, most / 2), ...found.slice(-most / 2)];
    const caption = filtered ? `${count(found.length)} of ${count(rows.length)} queries`
      : some.length === found.length ? "All queries"
        : alone ? "The best and the worst queries" : "Queries with the largest differences";
    const figure = queryTable(some, caption);
    figure.querySelector(".scroll").classList.toggle("long", some.length > LONG);
    const parts = [figure];
    if (!listedAll && !filtered && some.length < found.length) {
      parts.push(make("button", `List all ${count(found.length)} queries`, { type: "button", id: "list-all" }));
    }
    one("difference-table").replaceChildren(...parts);
    fit();
  };
  const tableFigure = (caption, file, heads, up) => {
    const figure = make("figure", "", { class: "table", "data-file": file });
    const top = figure.appendChild(make("figcaption", caption));
    const tools = top.appendChild(make("span", "", { class: "tools" }));
    tools.append(make("button", "Copy", { type: "button", "data-do": "copy", "aria-label": `Copy the table: ${caption}` }));
    tools.append(make("button", "CSV", { type: "button", "data-do": "csv", "aria-label": `Download as CSV: ${caption}` }));
    const scroll = figure.appendChild(make("div", "", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }));
    const table = scroll.appendChild(make("table"));
    const head = table.createTHead().insertRow();
    heads.forEach((name, i) => {
      const kind = i < up ? { "data-up": "" } : { class: "n" };
      head.appendChild(make("th", "", { scope: "col", ...kind, "data-x": guarded(name) }))
        .append(make("button", name, { type: "button" }));
    });
    return [figure, table.createTBody()];
  };
  const queryCell = (row) => {
    const cell = make("td", "", { class: "query", "data-x": guarded(row.query) });
    cell.append(make("button", row.query, { type: "button", "data-query": row.i }));
    return cell;
  };
  const queryTable = (some, caption) => {
    const texts = told.texts, names = alone ? [page.runs[0]] : ["difference", page.runs[chosen.first], page.runs[chosen.second]];
    const heads = ["query", ...(texts ? ["text"] : []), ...names];
    const [figure, body] = tableFigure(caption, `queries ${page.measures[chosen.measure]}`, heads, texts ? 2 : 1);
    for (const row of some) {
      const line = body.insertRow();
      line.append(queryCell(row));
      if (texts) line.append(make("td", texts[row.i], { class: "text", "data-x": guarded(texts[row.i]) }));
      for (const [value, text] of (alone ? [[row.a, fixed(row.a)]]
        : [[row.difference, signed(row.difference)], [row.a, fixed(row.a)], [row.b, fixed(row.b)]])) {
        line.append(make("td", text, { class: "n", "data-x": String(value) }));
      }
    }
    return figure;
  };
  const downloadAll = async () => {
    const lines = [["query", "run", ...page.measures.slice(0, page.values.measures.length)].map(guarded)];
    const columns = await Promise.all(page.values.measures.map((_, i) => values(i)));
    queries.forEach((query, i) => page.runs.forEach((run, r) => {
      const at = r * queries.length + i;
      const numbers = columns.map((column) => (Number.isNaN(column[at]) ? "" : String(column[at])));
      lines.push([guarded(query), guarded(run), ...numbers]);
    }));
    download("per-query values", csv(lines));
  };

  // One query: its text, what each system found and missed, and where.
  const openQuery = async (i) => {
    const body = one("query-body"), dialog = one("query");
    const details = await read("details", page.details.details);
    const found = chosen.measure < page.values.measures.length ? await values(chosen.measure) : null;
    const known = details?.queries[i];
    chosen.query = queries[i];
    one("query-title").textContent = `Query ${queries[i]}`;
    body.replaceChildren();
    if (told.texts?.[i]) body.append(make("p", told.texts[i], { class: "query-text" }));
    body.append(systemTable(i, found, known));
    if (!known) {
      const why = page.details.detailed ? "There was no room in this page for what was found for this query."
        : "The runs do not hold what was found for their queries.";
      body.append(make("p", why, { class: "note" }));
    } else if (known.some((run) => run.length > 3)) {
      const lists = body.appendChild(make("div", "", { class: "lists" }));
      const compared = (run) => run === chosen.first || run === chosen.second;
      const ordered = order(i, found).sort((a, b) => compared(b) - compared(a));
      for (const run of ordered) if (known[run][3]) lists.append(docList(run, known[run], details.docs));
    }
    for (const bar of all(".bars rect.on")) bar.classList.remove("on");
    document.querySelector(`.bars rect[data-query="${i}"]`)?.classList.add("on");
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
    remember();
  };
  const order = (i, found) => {
    const value = (run) => (found ? found[run * queries.length + i] : 0);
    return page.runs.map((_, run) => run).sort((a, b) => value(b) - value(a));
  };
  const systemTable = (i, found, known) => {
    const heads = ["run", ...(known ? ["relevant at ranks", "missed"] : []), page.measures[chosen.measure]];
    const [figure, body] = tableFigure(`Runs on ${queries[i]}`, `query ${queries[i]}`, heads, known ? 2 : 1);
    for (const run of order(i, found)) {
      const line = body.insertRow();
      line.append(make("td", page.runs[run], { "data-x": guarded(page.runs[run]) }));
      if (known) {
        const [ranks, n, total, , missed] = known[run];
        const left = total === null ? String(missed?.length ?? "–") : `${total - n} of ${total}`;
        line.append(make("td", (ranks.join(", ") || "none") + (n > ranks.length ? ", …" : "")), make("td", left, { class: "n" }));
      }
      const value = found ? found[run * queries.length + i] : NaN;
      line.append(make("td", fixed(value), { class: "n", "data-x": Number.isNaN(value) ? "" : String(value) }));
    }
    return figure;
  };
  const docList = (run, [, , , results, missed], docs) => {
    const fold = make("details", "", { class: "list" });
    fold.open = alone || run === chosen.first || run === chosen.second;
    fold.append(make("summary", page.runs[run]));
    const items = fold.appendChild(make("ol"));
    const add = (rank, [doc, grade], kind, words) => {
      const item = items.appendChild(make("li", "", kind ? { class: kind } : {}));
      item.append(make("span", rank, { class: "rank" }), make("span", docs[doc][0], { class: "doc" }));
      item.append(make("span", words ?? (grade === null ? "not judged" : `grade ${grade}`), { class: "grade" }));
      if (docs[doc][1]) item.append(make("p", docs[doc][1]));
    };
    results.forEach((doc, i) => add(String(i + 1), doc, doc[1] > 0 ? "relevant" : ""));
    missed.forEach((doc) => add("✕", doc, "missing",
      `grade ${doc[1]}, ${doc[2] ? `beyond rank ${results.length}` : "not retrieved"}`));
    return fold;
  };
  const neighbour = (step) => {
    const found = matching(), at = found.findIndex((row) => row.query === chosen.query);
    const next = found[(at + step + found.length) % found.length];
    if (next) openQuery(next.i);
  };

  // The measure, the pair, the systems
  const markPair = () => {
    const place = (run) => page.order[chosen.measure].indexOf(run);
    const [i, j] = [place(chosen.first), place(chosen.second)].sort((a, b) => a - b);
    const table = document.querySelector(`#pairs [data-measure="${chosen.measure}"] .pairs table`);
    table?.tBodies[0].rows[i]?.cells[j + 1]?.classList.add("on");
  };
  const showMeasure = () => {
    const shows = (part) => part.dataset.measure.split(" ").includes(String(chosen.measure));
    for (const part of all("[data-measure]")) part.hidden = !shows(part);
    for (const section of all("main > section")) {
      const parts = all("[data-measure]", section);
      section.hidden = parts.length > 0 && parts.every((part) => part.hidden);
      const link = document.querySelector(`.contents a[href="#${section.id}"]`);
      if (link) link.parentElement.hidden = section.hidden;
    }
    const table = document.querySelector(".means table");
    if (table) {
      for (const row of table.rows) [...row.cells].forEach((cell, i) => cell.classList.toggle("on", i === chosen.measure + 1));
      const head = table.rows[0].cells[chosen.measure + 1];
      sort(head, false);
    }
  };
  const filterSystems = () => {
    const wanted = chosen.systems.trim().toLowerCase();
    const misses = (name) => wanted !== "" && !name.toLowerCase().includes(wanted);
    for (const table of all(".systems table, .pairs table")) {
      const square = table.closest(".pairs") !== null;
      const hidden = [...table.tBodies[0].rows].map((row) => {
        const cell = nameOf(row);
        row.hidden = misses(cell.textContent) && !cell.classList.contains("last");
        return row.hidden;
      });
      if (square) for (const row of table.rows) hidden.forEach((out, i) => { row.cells[i + 1].hidden = out; });
    }
    for (const mark of all(".plot .system")) mark.classList.toggle("out", misses(mark.dataset.system));
  };
  const show = async () => {
    if (one("measure")) one("measure").value = chosen.measure;
    if (one("first")) one("first").value = chosen.first;
    if (one("second")) one("second").value = chosen.second;
    if (one("systems")) one("systems").value = chosen.systems;
    showMeasure();
    filterSystems();
    await compareQueries();
    fit();
  };

  // The address
  const remember = () => {
    const parts = new URLSearchParams();
    if (chosen.measure) parts.set("measure", page.measures[chosen.measure]);
    if (chosen.first !== atFirst.first || chosen.second !== atFirst.second) {
      parts.set("first", page.runs[chosen.first]);
      parts.set("second", page.runs[chosen.second]);
    }
    if (chosen.systems) parts.set("systems", chosen.systems);
    if (chosen.query !== null) parts.set("query", chosen.query);
    const text = parts.toString();
    if (text !== location.hash.slice(1)) history.replaceState(null, "", text ? `#${text}` : location.pathname + location.search);
  };
  const place = (names, name, other) => (names.includes(name) ? names.indexOf(name) : other);
  const follow = async () => {
    const given = location.hash.slice(1);
    if (given && !given.includes("=")) return;  // a section
    const parts = new URLSearchParams(given);
    chosen.measure = place(page.measures, parts.get("measure"), 0);
    chosen.first = place(page.runs, parts.get("first"), atFirst.first);
    chosen.second = place(page.runs, parts.get("second"), atFirst.second);
    chosen.systems = parts.get("systems") ?? "";
    const query = queries.indexOf(parts.get("query"));
    await show();
    if (query >= 0) await openQuery(query);
    else if (one("query").open) one("query").close();
  };
  const choose = async (changes) => {
    Object.assign(chosen, changes);
    await show();
    remember();
  };

  document.addEventListener("click", (event) => {
    const query = event.target.closest("[data-query]");
    if (query) openQuery(Number(query.dataset.query));
    const button = event.target.closest("button");
    if (!button) return;
    const figure = button.closest("figure.table");
    if (button.dataset.do === "csv") download(figure.dataset.file, csv(grid(figure)));
    if (button.dataset.do === "copy") {
      copy(grid(figure).map((row) => row.join("\t")).join("\n")).then(() => say(button, "Copied"));
    }
    if (button.parentElement.tagName === "TH") turn(button.parentElement);
    if (button.id === "list-all") { listedAll = true; list(); }
    const cell = button.closest(".pairs td");
    if (cell) {
      const [first, second] = [cell.parentElement.rowIndex - 1, cell.cellIndex - 1].map((i) => page.order[chosen.measure][i]);
      choose({ first, second }).then(() => one("differences").scrollIntoView());
    }
  });
  const on = (id, kind, action) => one(id)?.addEventListener(kind, action);
  on("measure", "change", () => choose({ measure: Number(one("measure").value) }));
  on("first", "change", () => choose({ first: Number(one("first").value) }));
  on("second", "change", () => choose({ second: Number(one("second").value) }));
  on("systems", "input", () => { chosen.systems = one("systems").value; filterSystems(); remember(); });
  on("find", "input", list);
  on("all-values", "click", downloadAll);
  on("close", "click", () => one("query").close());
  on("before", "click", () => neighbour(-1));
  on("after", "click", () => neighbour(1));
  on("query", "close", () => { chosen.query = null; remember(); });
  addEventListener("hashchange", follow);
  addEventListener("resize", fit);

  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";
  const nameTheme = () => { one("theme").textContent = isDark() ? "Light" : "Dark"; };
  on("theme", "click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    nameTheme();
  });
  dark.addEventListener("change", nameTheme);
  nameTheme();

  // Open all details elements for printing, and close them again afterwards.
  let folded = [];
  addEventListener("beforeprint", () => {
    folded.push(...all("details:not([open])"));
    for (const fold of folded) fold.open = true;
  });
  addEventListener("afterprint", () => {
    for (const fold of folded) fold.open = false;
    folded = [];
  });

  const start = async () => {
    atFirst = { first: Number(one("first")?.value ?? 0), second: Number(one("second")?.value ?? 0) };
    Object.assign(chosen, atFirst);
    await read("texts", page.details.texts);
    await follow();
    if (!location.hash.includes("=")) await show();
  };
  start().catch((error) => {
    document.body.prepend(make("p", `Values of queries require a browser from 2023 or later: ${error.message}`, { class: "note" }));
  }).finally(() => { document.documentElement.dataset.ready = "yes"; });
})();
