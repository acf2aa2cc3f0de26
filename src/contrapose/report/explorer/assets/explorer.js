"use strict";
// Everything that comes from data enters the page as text or attributes, never as markup.
const byId = (id) => document.getElementById(id);
const OUTCOMES = { r: "right", w: "wrong", t: "tied", p: "partly right", s: "skipped",
  n: "not judged" };
const PAIRS = ["right-wrong", "wrong-right", "right-right", "wrong-wrong"];
const SORTS = { worst: "worst margin first", best: "best margin first", close: "closest calls first",
  gain: "B ahead of A most", loss: "B behind A most", order: "as in the benchmark" };
const PAGE = 24;

function make(tag, name, ...content) {
  const node = document.createElement(tag);
  if (name) node.className = name;
  node.append(...content.map((part) => (part instanceof Node ? part : String(part))));
  return node;
}

const count = (number) => number.toLocaleString("en");

async function copyText(text, button) {
  let done = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {  // a page that is opened from disk, in some browsers
    const area = make("textarea");
    area.value = text;
    (button.closest("dialog") || document.body).append(area);
    area.select();
    done = document.execCommand("copy");
    area.remove();
  }
  const before = button.textContent;
  button.textContent = done ? "copied" : "cannot copy";
  setTimeout(() => { button.textContent = before; }, 1200);
}

// Contents, and tables that sort and copy.
function listContents() {
  const sections = [...document.querySelectorAll("main > section")];
  if (sections.length < 2) return;
  const nav = make("nav", "contents");
  nav.setAttribute("aria-label", "Contents");
  sections.forEach((section, number) => {
    section.id = section.id || `section-${number + 1}`;
    const link = make("a", "", section.querySelector("h2").textContent);
    link.href = "#" + section.id;
    nav.append(link);
  });
  document.querySelector("main").before(nav);
}

const plainNumber = (text) => {
  const match = /^[+−-]?[\d,]*\.?\d+(?:e[+-]?\d+)?/i.exec(text.trim());
  return match ? Number(match[0].replaceAll(",", "").replace("−", "-")) : null;
};

function sortTable(table, column, head) {
  const down = head.dataset.sort !== "down";
  for (const other of table.tHead.rows[0].cells) other.dataset.sort = "";
  head.dataset.sort = down ? "down" : "up";
  const body = table.tBodies[0], rows = [...body.rows];
  const totals = rows.filter((row) => row.classList.contains("total"));
  const value = (row) => row.cells[column].textContent;
  const numeric = rows.some((row) => plainNumber(value(row)) !== null && column > 0);
  const sign = down ? -1 : 1;
  const compare = (one, other) => {
    if (!numeric) return -sign * value(one).localeCompare(value(other));
    const [a, b] = [plainNumber(value(one)), plainNumber(value(other))];
    return a === null || b === null ? (a === null) - (b === null) : sign * (a - b);
  };
  body.append(...rows.filter((row) => !totals.includes(row)).sort(compare), ...totals);
}

function tableCsv(table) {
  const quote = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  return [...table.rows].map((row) =>
    [...row.cells].map((cell) => quote(cell.innerText.trim().replace(/\s+/g, " "))).join(",")
  ).join("\n") + "\n";
}

function improveTables() {
  for (const table of document.querySelectorAll("main .scroll > table")) {
    if (!table.tHead || !table.tBodies[0]) continue;
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      head.dataset.sort = "";
      head.tabIndex = 0;
      head.addEventListener("click", () => sortTable(table, column, head));
      head.addEventListener("keydown", (event) => {
        if (event.key === "Enter") sortTable(table, column, head);
      });
    });
    const button = make("button", "csv", "copy as CSV");
    button.type = "button";
    button.addEventListener("click", () => copyText(tableCsv(table), button));
    table.after(button);
  }
}

// Words of a caption that another one does not have at their place: the longest common sequence.
function changedWords(text, other) {
  const split = (words) => words.match(/\s+|[\p{L}\p{N}_]+(?:[-'’/&.][\p{L}\p{N}_]+)*|[^\s]/gu) || [];
  const pieces = split(text), words = pieces.filter((piece) => piece.trim());
  const others = split(other).filter((piece) => piece.trim());
  const same = (i, j) => words[i].toLowerCase() === others[j].toLowerCase();
  const best = Array.from({ length: words.length + 1 }, () => new Uint16Array(others.length + 1));
  for (let i = words.length - 1; i >= 0; i--)
    for (let j = others.length - 1; j >= 0; j--)
      best[i][j] = same(i, j) ? best[i + 1][j + 1] + 1 : Math.max(best[i + 1][j], best[i][j + 1]);
  const changed = words.map(() => true);
  for (let i = 0, j = 0; i < words.length && j < others.length;) {
    if (same(i, j)) changed[i++] = false, j++;
    else if (best[i + 1][j] >= best[i][j + 1]) i++;
    else j++;
  }
  let at = 0;
  return pieces.map((piece) => (piece.trim() && changed[at++] ? make("mark", "", piece) : piece));
}

const isRight = (row, j) => row.match.some((line) => line[j] === "1");

function showCaption(row, j) {
  const text = row.captions[j];
  const others = row.captions.map((_, i) => i).filter((i) => i !== j);
  const unlike = others.filter((i) => isRight(row, i) !== isRight(row, j));
  const other = (unlike.length || row.match.length < 2 ? unlike : others)[0];
  return other === undefined || text.length > 2000 ? [text] : changedWords(text, row.captions[other]);
}

// Examples: rows that the page holds, or rows of the server.
const holder = byId("explorer-data");
const data = holder ? JSON.parse(holder.textContent) : null;
let state = null, shown = [], total = 0, open = -1, pending = null, timer = 0;

const fileSource = {
  find(query) {
    const at = data.metrics.indexOf(query.metric);
    const words = query.text.trim().toLowerCase();
    const code = (row, run) => row.runs[run].outcomes[at];
    const counts = {}, rows = [];
    for (const row of data.rows) {
      const sign = code(row, query.a);
      if (sign === "-") continue;
      if (query.part && !row.parts.includes(query.part)) continue;
      if (query.tag && !(row.tags[query.tag] || []).includes(query.value)) continue;
      if (words && !(row.words ??= [row.id, ...row.captions].join("\n").toLowerCase())
        .includes(words)) continue;
      counts[sign] = (counts[sign] || 0) + 1;
      let pair = "";
      if (query.b >= 0) {
        const second = code(row, query.b);
        if (!"-sn".includes(sign) && !"-sn".includes(second)) {
          pair = `${sign === "r" ? "right" : "wrong"}-${second === "r" ? "right" : "wrong"}`;
          counts[pair] = (counts[pair] || 0) + 1;
        }
      }
      if (!query.outcome || query.outcome === sign || query.outcome === pair) rows.push(row);
    }
    return { rows: this.sort(rows, query), counts };
  },
  sort(rows, query) {
    if (query.sort === "order") return rows;
    const margin = (row, run) => row.runs[run].margin;
    const value = (row) => {
      const mine = margin(row, query.a);
      const other = query.b >= 0 ? margin(row, query.b) : mine;
      if (mine === undefined) return Infinity;
      if (query.sort === "gain" || query.sort === "loss")
        return other === undefined ? Infinity : (mine - other) * (query.sort === "gain" ? 1 : -1);
      return query.sort === "best" ? -mine : query.sort === "close" ? Math.abs(mine) : mine;
    };
    const keyed = rows.map((row) => [value(row), row]);
    return keyed.sort(([a], [b]) => (a === b ? 0 : a - b)).map(([, row]) => row);
  },
  async ask(query, offset, most) {
    if (this.query !== JSON.stringify(query)) {
      this.query = JSON.stringify(query);
      this.answer = this.find(query);
    }
    const { rows, counts } = this.answer;
    return { count: rows.length, counts, rows: rows.slice(offset, offset + most) };
  },
  thumbnail: (number) => data.thumbnails[number] || "",
  image: (number) => data.thumbnails[number] || "",
  explanation: (row, run) => `explanations/${row.key}-${run.key}.html`,
};

const serverSource = {
  async ask(query, offset, most, signal) {
    let answer;
    try {
      answer = await fetch("/api/examples?" + new URLSearchParams({ ...query, offset, most }),
        { signal });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Error("The server does not answer; is contrapose view still running?");
    }
    const values = await answer.json();
    if (!answer.ok) throw new Error(values.error);
    return values;
  },
  thumbnail: (number) => "/thumbnail/" + number,
  image: (number) => "/image/" + number,
  explanation: (row, run) => (row.explained || []).includes(run.key)
    ? `/explanation/${row.key}-${run.key}` : "",
};

const source = data && data.server ? serverSource : fileSource;

function plainState() {
  return { a: 0, b: -1, metric: data.metrics[0], outcome: "", part: "", tag: "", value: "",
    text: "", sort: "worst", ...data.start };
}

function readHash() {
  const values = plainState();
  if (!location.hash.startsWith("#x?")) return values;
  const words = new URLSearchParams(location.hash.slice(3)), runs = data.runs.length;
  for (const name of Object.keys(values)) if (words.has(name)) values[name] = words.get(name);
  for (const name of ["a", "b"]) {
    values[name] = Number(values[name]);
    if (!(values[name] >= -1 && values[name] < runs)) values[name] = plainState()[name];
  }
  if (values.a < 0) values.a = 0;
  if (!(values.sort in SORTS)) values.sort = "worst";
  if (!data.metrics.includes(values.metric)) values.metric = data.metrics[0];
  if (!(values.outcome in OUTCOMES) && !PAIRS.includes(values.outcome)) values.outcome = "";
  return values;
}

function change(values, wait = 0) {
  state = { ...state, ...values };
  const plain = plainState(), words = new URLSearchParams();
  for (const [name, value] of Object.entries(state))
    if (value !== plain[name]) words.set(name, value);
  const hash = words.toString();
  if (hash || location.hash.startsWith("#x?"))
    history.replaceState(null, "", hash ? "#x?" + hash : location.pathname + location.search);
  clearTimeout(timer);
  if (wait) timer = setTimeout(show, wait); else show();
}

function fillSelect(id, entries, value) {
  const select = byId(id);
  const options = entries.map(([key, text]) => {
    const choice = make("option", "", text);
    choice.value = key;
    return choice;
  });
  select.replaceChildren(...options);
  select.value = String(value);
}

const sameBenchmark = (a, b) => data.runs[a].benchmark === data.runs[b].benchmark;

function showControls(counts) {
  const runs = data.runs.map((run, number) => [number,
    data.benchmarks.length > 1 ? `${run.label} · ${run.benchmark}` : run.label]);
  const others = runs.filter(([number]) => number !== state.a && sameBenchmark(number, state.a));
  fillSelect("x-a", runs, state.a);
  fillSelect("x-b", [[-1, "none"], ...others], state.b);
  byId("x-b-label").hidden = !others.length;
  fillSelect("x-metric", data.metrics.map((name) => [name, name.replaceAll("_", " ")]), state.metric);
  byId("x-metric-label").hidden = data.metrics.length < 3;
  const pairs = state.b < 0 ? [] : PAIRS.map((pair) => {
    const [a, b] = pair.split("-");
    return [pair, `A ${a} and B ${b} (${count(counts[pair] || 0)})`];
  });
  const sum = Object.keys(OUTCOMES).reduce((all, sign) => all + (counts[sign] || 0), 0);
  fillSelect("x-outcome", [["", `all (${count(sum)})`],
    ...Object.entries(OUTCOMES).filter(([sign]) => counts[sign] || "rw".includes(sign))
      .map(([sign, name]) => [sign, `${name} (${count(counts[sign] || 0)})`]), ...pairs],
  state.outcome);
  fillSelect("x-part", [["", "all"],
    ...data.parts.map(([name, size]) => [name, `${name} (${count(size)})`])], state.part);
  byId("x-part-label").hidden = !data.parts.length;
  const tags = Object.entries(data.tags).flatMap(([tag, values]) =>
    values.map(([value, size]) => [JSON.stringify([tag, value]), `${tag}: ${value} (${count(size)})`]));
  fillSelect("x-tag", [["", "all"], ...tags],
    state.tag ? JSON.stringify([state.tag, state.value]) : "");
  byId("x-tag-label").hidden = !tags.length;
  fillSelect("x-sort", Object.entries(SORTS)
    .filter(([name]) => state.b >= 0 || !["gain", "loss"].includes(name)), state.sort);
  if (document.activeElement !== byId("x-text")) byId("x-text").value = state.text;
}

async function show() {
  if (pending) pending.abort();
  const mine = pending = new AbortController();
  if (state.b >= 0 && (state.b === state.a || !sameBenchmark(state.a, state.b))) state.b = -1;
  if (state.b < 0 && PAIRS.includes(state.outcome)) state.outcome = "";
  if (state.b < 0 && ["gain", "loss"].includes(state.sort)) state.sort = "worst";
  try {
    const answer = await source.ask(state, 0, PAGE, mine.signal);
    if (pending !== mine) return;
    byId("x-message").hidden = true;
    shown = answer.rows;
    total = answer.count;
    showControls(answer.counts);
    byId("x-cards").replaceChildren(...shown.map(makeCard));
    showStatus();
  } catch (error) {
    if (error.name === "AbortError") return;
    byId("x-message").textContent = error.message;
    byId("x-message").hidden = false;
  }
}

function showStatus() {
  const run = data.runs[state.a], held = data.server ? data.total : data.rows.length;
  const all = Object.values(run.counts).reduce((sum, size) => sum + size, 0);
  const words = [held < data.total
    ? `${count(total)} of the ${count(held)} examples in this file (${count(data.total)} in all)`
    : `${count(total)} of ${count(all)} examples`];
  if (shown.length < total) words.push(`${count(shown.length)} shown`);
  if (run.note) words.push(run.note);
  byId("x-status").textContent = words.join(" · ");
  byId("x-more").hidden = shown.length >= total;
}

async function more() {
  if (shown.length >= total || more.busy) return;
  more.busy = true;
  const mine = pending;
  try {
    const answer = await source.ask(state, shown.length, PAGE, mine.signal);
    if (mine !== pending) return;
    byId("x-cards").append(...answer.rows.map((row, i) => makeCard(row, shown.length + i)));
    shown.push(...answer.rows);
    showStatus();
  } catch (error) {
    if (error.name !== "AbortError") byId("x-message").textContent = error.message;
  } finally {
    more.busy = false;
  }
}

// Cards.
const letter = (i) => String.fromCharCode(65 + i);
const number = (value) => (value === null || value === undefined ? "–"
  : value.toFixed(Math.abs(value) >= 1000 ? 0 : 3).replace("-", "−"));
const signed = (value) => {
  const size = Math.abs(value);
  return (value < 0 ? "−" : "+") + size.toFixed(size > 0 && size < 0.005 ? 4 : 2);
};

function outcomeOf(row, run, metric = state.metric) {
  return row.runs[run].outcomes[data.metrics.indexOf(metric)];
}

function makeBadge(row, run, name = "") {
  const sign = outcomeOf(row, run), values = row.runs[run];
  const parts = [make("span", `badge o-${sign}`, OUTCOMES[sign] || "not in this run")];
  if (values.margin !== undefined) parts.push(` ${signed(values.margin)} sd`);
  if (name) parts.unshift(make("span", "run", `${name} `));
  return make("span", "", ...parts);
}

function makeImages(row, large) {
  const boxes = row.images.map((at, i) => {
    const address = large ? source.image(at) : source.thumbnail(at);
    const words = row.images.length > 1 ? [letter(i), row.labels[i]].join(" ").trim() : row.labels[i];
    const broken = () => make("div", "missing",
      data.server ? "the image cannot be opened" : "no image in this file");
    const box = make("div");
    if (address) {
      const image = make("img");
      image.alt = row.captions.filter((_, j) => (row.match[i] || "")[j] === "1").join("; ")
        || `image ${i + 1} of ${row.id}`;
      image.loading = "lazy";
      image.addEventListener("error", () => image.replaceWith(broken()));
      image.src = address;
      box.append(image);
    } else box.append(broken());
    box.append(words);
    return box;
  });
  return boxes.length ? [make("div", "images", ...boxes)] : [];
}

function makeCaptions(row) {
  if (!row.captions.length) return [];
  return [make("ol", "captions", ...row.captions.map((_, j) => {
    const item = make("li", "", ...showCaption(row, j));
    if (row.match.length === 1 && row.match[0].includes("0"))
      item.append(" ", make("small", isRight(row, j) ? "right" : "wrong", isRight(row, j) ? "right" : "wrong"));
    return item;
  }))];
}

// Scores of a run: images are rows and captions are columns.
function makeMatrix(row, run) {
  const scores = row.runs[run].scores;
  if (!scores) return [];
  const values = scores.flat().filter((value) => value !== null);
  const low = Math.min(...values), high = Math.max(...values);
  const columns = scores[0].map((_, j) => scores.map((line) => line[j]));
  const table = make("table", "matrix");
  const head = table.createTHead().insertRow();
  head.append(make("th"), ...scores[0].map((_, j) => make("th", "", j + 1)));
  const body = table.createTBody();
  scores.forEach((line, i) => {
    const cells = body.insertRow();
    cells.append(make("th", "", scores.length > 1 ? letter(i) : ""));
    line.forEach((value, j) => {
      const fits = row.match[i][j] === "1";
      const prefers = line.length > 1 && value !== null && value === Math.max(...line);
      const chosen = scores.length > 1 && value !== null && value === Math.max(...columns[j]);
      const cell = make("td", fits ? "fit" : "", number(value), prefers ? "▴" : "", chosen ? "◂" : "");
      const share = high > low ? Math.round((28 * (value - low)) / (high - low)) : 0;
      cell.style.background = `color-mix(in srgb, var(--accent) ${share}%, transparent)`;
      cell.title = `${row.captions[j] || "caption " + (j + 1)}: ${fits ? "right" : "wrong"}`;
      cells.append(cell);
    });
  });
  const words = [data.runs[run].label], e = equivariance(row, run);
  if (e) words.push(`e text ${signed(e[0])}, image ${signed(e[1])} sd`);
  return [make("figure", "", table, make("figcaption", "", words.join(" · ")))];
}

function equivariance(row, run) {
  const scores = row.runs[run].scores;
  if (row.match.join() !== "10,01" || !scores || scores.flat().includes(null)) return null;
  const [[a, b], [c, d]] = scores, spread = data.runs[run].spread;
  return [((a - b) - (d - c)) / spread, ((a - c) - (d - b)) / spread];
}

function makeCard(row, at) {
  const card = make("article", "example"), runs = state.b < 0 ? [state.a] : [state.a, state.b];
  const badges = runs.map((run, i) => makeBadge(row, run, runs.length > 1 ? "AB"[i] : ""));
  card.append(
    make("header", "", make("span", "", row.parts[0] || `example ${row.id}`)),
    make("div", "outcomes", ...badges),
    ...makeImages(row, false), ...makeCaptions(row),
    make("div", "matrices", ...runs.flatMap((run) => makeMatrix(row, run))),
    ...runs.filter((run) => row.runs[run].why)
      .map((run) => make("p", "note", `skipped: ${row.runs[run].why}`)),
    ...runs.flatMap((run) => makeReplies(row, run, 1)),
  );
  if (row.parts.length) card.append(make("p", "note", `example ${row.id}`));
  card.classList.toggle("wide", row.images.length > 2);
  card.tabIndex = 0;
  card.addEventListener("click", () => openExample(at));
  return card;
}

function makeReplies(row, run, most) {
  return (row.runs[run].replies || []).slice(0, most).flatMap(([prompt, reply, right]) => [
    make("p", "note reply", prompt), make("p", right ? "right reply" : "wrong reply", reply)]);
}

// The open example.
const quote = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`);

function explainCommand(row, run) {
  const { model, score, folder, key } = data.runs[run];
  const right = row.captions.findIndex((_, j) => isRight(row, j));
  const wrong = row.captions.findIndex((_, j) => !(row.match[0] || "")[j] || row.match[0][j] === "0");
  if (!model || right < 0 || !row.images.length) return "";
  const image = Math.max(row.match.findIndex((line) => line[right] === "1"), 0);
  const words = ["contrapose", "explain", model, "--image", row.files[image] || "image.png",
    "--text", row.captions[right]];
  if (wrong >= 0 && wrong !== right) words.push("--against", row.captions[wrong]);
  const base = (score || "").split(/[-:]/)[0];
  if (["itc", "itm", "lm", "vqa"].includes(base)) words.push("--score", base);
  if (folder) words.push("--out", `${folder}/explanations/${row.key}-${key}.html`);
  return words.map(quote).join(" ");
}

function makeExplanation(row, run) {
  const command = explainCommand(row, run), address = source.explanation(row, data.runs[run]);
  if (!command) return [];
  const button = make("button", "csv", "copy the command");
  button.type = "button";
  button.addEventListener("click", () => copyText(command, button));
  const parts = [make("p", "note", "What each word and region adds to the score:"),
    make("pre", "command", command), button];
  if (command.includes(" image.png "))
    parts.push(make("span", "note", " (save the image above as image.png first)"));
  if (address && data.runs[run].folder) {
    const link = make("a", "explanation", data.server ? "open the explanation"
      : "open the explanation, once the command has run");
    link.href = address;
    link.target = "_blank";
    link.rel = "noopener";
    parts.push(" ", link);
  }
  return parts;
}

function showDetail() {
  const row = shown[open], detail = byId("x-detail");
  byId("x-title").textContent = [data.benchmarks[row.benchmark], ...row.parts, row.id].join(" · ");
  const runs = data.runs.map((_, run) => run)
    .filter((run) => sameBenchmark(run, state.a) && /[^-]/.test(row.runs[run].outcomes));
  const facts = make("dl");
  const fact = (name, ...words) => facts.append(make("dt", "", name), make("dd", "", ...words));
  for (const run of runs) {
    fact(data.runs[run].label, makeBadge(row, run), ...data.metrics.slice(1).flatMap((metric) => {
      const sign = outcomeOf(row, run, metric);
      return sign in OUTCOMES ? [` · ${metric.replaceAll("_", " ")}: ${OUTCOMES[sign]}`] : [];
    }), row.runs[run].why ? ` · ${row.runs[run].why}` : "");
  }
  for (const [tag, values] of Object.entries(row.tags)) fact(tag, values.join(", "));
  row.files.forEach((file, i) => file && fact(`image ${row.files.length > 1 ? letter(i) : ""}`, file));
  detail.replaceChildren(...makeImages(row, true), ...makeCaptions(row),
    make("div", "matrices", ...runs.flatMap((run) => makeMatrix(row, run))), facts,
    ...runs.flatMap((run) => makeReplies(row, run, 6)), ...makeExplanation(row, state.a));
  byId("x-prev").disabled = open === 0;
  byId("x-next").disabled = open >= total - 1;
  if (!byId("x-dialog").open) byId("x-dialog").showModal();
  byId("x-dialog").scrollTop = 0;
}

async function openExample(at) {
  if (at < 0 || at >= total) return;
  if (at >= shown.length) await more();
  if (at >= shown.length) return;
  open = at;
  showDetail();
}

async function moveFocus(step) {
  const cards = byId("x-cards").children, at = [...cards].indexOf(document.activeElement);
  const next = at < 0 ? 0 : at + step;
  if (next >= cards.length) await more();
  if (cards[next]) cards[next].focus();
}

function pressKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const dialog = byId("x-dialog"), help = byId("x-help");
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName);
  if (event.key === "Escape" && !dialog.open && !help.open) {
    if (typing) document.activeElement.blur();
    byId("x-text").value = "";
    change({ ...plainState(), a: state.a, b: state.b });
    return;
  }
  if (typing) return;
  const step = { j: 1, ArrowRight: 1, ArrowDown: 1, k: -1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  const onCard = document.activeElement.classList.contains("example");
  if (event.key === "?") {
    if (!help.open) help.showModal();
  } else if (event.key === "/" && !dialog.open) {
    byId("x-text").focus();
  } else if (step && dialog.open && !/Up|Down/.test(event.key)) {
    openExample(open + step);
  } else if (step && !dialog.open && !help.open && ("jk".includes(event.key) || onCard)) {
    moveFocus(step);
  } else if (event.key === "Enter" && onCard && !dialog.open) {
    document.activeElement.click();
  } else return;
  event.preventDefault();
}

function startExplorer() {
  const on = (id, name, value) => byId(id).addEventListener(name, (event) => change(value(event.target)));
  byId("x-about").textContent = data.about;
  state = readHash();
  on("x-a", "change", (node) => ({ a: Number(node.value) }));
  on("x-b", "change", (node) => ({ b: Number(node.value) }));
  for (const name of ["metric", "outcome", "part", "sort"])
    on("x-" + name, "change", (node) => ({ [name]: node.value }));
  on("x-tag", "change", (node) => {
    const [tag, value] = node.value ? JSON.parse(node.value) : ["", ""];
    return { tag, value };
  });
  byId("x-text").addEventListener("input", (event) => change({ text: event.target.value }, 150));
  byId("x-filters").addEventListener("submit", (event) => event.preventDefault());
  byId("x-more").addEventListener("click", more);
  byId("x-prev").addEventListener("click", () => openExample(open - 1));
  byId("x-next").addEventListener("click", () => openExample(open + 1));
  byId("x-close").addEventListener("click", () => byId("x-dialog").close());
  byId("x-help-close").addEventListener("click", () => byId("x-help").close());
  for (const dialog of [byId("x-dialog"), byId("x-help")])
    dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  byId("x-dialog").addEventListener("close", () => byId("x-cards").children[open]?.focus());
  document.addEventListener("keydown", pressKey);
  window.addEventListener("hashchange", () => {
    if (location.hash.startsWith("#x?")) { state = readHash(); show(); }
  });
  show();
}

improveTables();
if (data) startExplorer();
listContents();
