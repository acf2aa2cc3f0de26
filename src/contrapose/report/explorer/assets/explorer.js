"use strict";
// Explorer of examples, behind page.js, whose helpers it uses.
const OUTCOMES = { r: "right", w: "wrong", t: "tied", p: "partly right", s: "skipped",
  n: "not judged" };
const PAIRS = ["right-wrong", "wrong-right", "right-right", "wrong-wrong"];
const SORTS = { worst: "worst margin first", best: "best margin first", close: "closest calls first",
  gain: "B ahead of A most", loss: "B behind A most", order: "as in the benchmark" };
const PAGE = 24;
const data = JSON.parse(byId("explorer-data").textContent);
let state = null, shown = [], total = 0, open = -1, pending = null, timer = 0;

const sameBenchmark = (a, b) => data.runs[a].benchmark === data.runs[b].benchmark;
const isRight = (row, j) => row.match.some((line) => line[j] === "1");
const outcomeOf = (row, run, metric = state.metric) =>
  row.runs[run].outcomes[data.metrics.indexOf(metric)];

// Rows that the page holds.
function findRows(query) {
  const words = query.text.trim().toLowerCase(), counts = {};
  const rows = data.rows.filter((row) => {
    const sign = outcomeOf(row, query.a, query.metric);
    if (sign === "-" || (query.part && !row.parts.includes(query.part))) return false;
    if (query.tag && !(row.tags[query.tag] || []).includes(query.value)) return false;
    if (words && !(row.words ??= [row.id, ...row.captions].join("\n").toLowerCase())
      .includes(words)) return false;
    const second = query.b < 0 ? "-" : outcomeOf(row, query.b, query.metric);
    const pair = "-sn".includes(sign) || "-sn".includes(second) ? ""
      : `${sign === "r" ? "right" : "wrong"}-${second === "r" ? "right" : "wrong"}`;
    for (const name of [sign, pair]) if (name) counts[name] = (counts[name] || 0) + 1;
    return !query.outcome || query.outcome === sign || query.outcome === pair;
  });
  return { rows: sortRows(rows, query), counts };
}

function sortRows(rows, query) {
  if (query.sort === "order") return rows;
  const key = (row) => {
    const mine = row.runs[query.a].margin, other = query.b < 0 ? mine : row.runs[query.b].margin;
    const value = { best: -mine, close: Math.abs(mine), gain: mine - other, loss: other - mine };
    return value[query.sort] ?? mine;
  };
  const last = (value) => (Number.isFinite(value) ? value : Infinity);
  const keyed = rows.map((row) => [last(key(row)), row]);
  return keyed.sort(([a], [b]) => (a === b ? 0 : a - b)).map(([, row]) => row);
}

const fileSource = {
  async ask(query, offset, most) {
    const text = JSON.stringify(query);
    if (this.query !== text) Object.assign(this, { query: text, answer: findRows(query) });
    const { rows, counts } = this.answer;
    return { count: rows.length, counts, rows: rows.slice(offset, offset + most) };
  },
  image: (at) => data.thumbnails[at] || "",
  explanation: (row, run) => `explanations/${row.key}-${run.key}.html`,
};

// Rows of the local server.
const serverSource = {
  async ask(query, offset, most, signal) {
    const words = new URLSearchParams({ ...query, offset, most, v: data.edition });
    const answer = await fetch("/api/examples?" + words, { signal }).catch((error) => {
      throw error.name === "AbortError" ? error
        : new Error("The server does not answer; is contrapose view still running?");
    });
    const values = await answer.json();
    if (!answer.ok) throw new Error(values.error);
    return values;
  },
  image: (at, large) => `/${large ? "image" : "thumbnail"}/${at}?v=${data.edition}`,
  explanation: (row, run) => (row.explained || []).includes(run.key)
    ? `/explanation/${row.key}-${run.key}` : "",
};
const source = data.server ? serverSource : fileSource;

// The query stands in the address, so that it can be kept and sent.
const plainState = () => ({ a: 0, b: -1, metric: data.metrics[0], outcome: "", part: "", tag: "",
  value: "", text: "", sort: "worst", ...data.start });

function readHash() {
  const values = plainState();
  if (!location.hash.startsWith("#x?")) return values;
  const isRun = (low) => (word) => Number(word) >= low && Number(word) < data.runs.length;
  const fits = { a: isRun(0), b: isRun(-1), sort: (word) => word in SORTS,
    metric: (word) => data.metrics.includes(word),
    outcome: (word) => !word || word in OUTCOMES || PAIRS.includes(word) };
  for (const [name, word] of new URLSearchParams(location.hash.slice(3)))
    if (name in values && (!fits[name] || fits[name](word))) values[name] = word;
  return { ...values, a: Number(values.a), b: Number(values.b) };
}

function change(values, wait = 0) {
  state = { ...state, ...values };
  const start = plainState();
  const words = Object.entries(state).filter(([name, value]) => value !== start[name]);
  const hash = new URLSearchParams(words).toString();
  if (hash || location.hash.startsWith("#x?"))
    history.replaceState(null, "", hash ? "#x?" + hash : location.pathname + location.search);
  clearTimeout(timer);
  if (wait) timer = setTimeout(show, wait); else show();
}

function fillSelect(id, entries, value) {
  byId(id).replaceChildren(...entries.map(([key, text]) => new Option(text, key)));
  byId(id).value = String(value);
}

function showControls(counts) {
  const hide = (id, hidden) => { byId(`x-${id}-label`).hidden = hidden; };
  const counted = (entries) => entries.map(([name, size]) => [name, `${name} (${count(size)})`]);
  const runs = data.runs.map((run, at) => [at,
    data.benchmarks.length > 1 ? `${run.label} · ${run.benchmark}` : run.label]);
  const others = runs.filter(([at]) => at !== state.a && sameBenchmark(at, state.a));
  const signs = Object.entries(OUTCOMES).filter(([sign]) => counts[sign] || "rw".includes(sign));
  const pairs = state.b < 0 ? [] : PAIRS.map((pair) => [pair, `A ${pair.replace("-", " and B ")}`]);
  const outcomes = [...signs, ...pairs]
    .map(([name, words]) => [name, `${words} (${count(counts[name] || 0)})`]);
  const all = signs.reduce((sum, [sign]) => sum + (counts[sign] || 0), 0);
  const tags = Object.entries(data.tags).flatMap(([tag, values]) => values.map(([value, size]) =>
    [JSON.stringify([tag, value]), `${tag}: ${value} (${count(size)})`]));
  const sorts = Object.entries(SORTS)
    .filter(([name]) => state.b >= 0 || !["gain", "loss"].includes(name));
  fillSelect("x-a", runs, state.a);
  fillSelect("x-b", [[-1, "none"], ...others], state.b);
  fillSelect("x-metric", data.metrics.map((name) => [name, plainName(name)]), state.metric);
  fillSelect("x-outcome", [["", `all (${count(all)})`], ...outcomes], state.outcome);
  fillSelect("x-part", [["", "all"], ...counted(data.parts)], state.part);
  fillSelect("x-tag", [["", "all"], ...tags],
    state.tag ? JSON.stringify([state.tag, state.value]) : "");
  fillSelect("x-sort", sorts, state.sort);
  hide("b", !others.length);
  hide("metric", data.metrics.length < 3);
  hide("part", !data.parts.length);
  hide("tag", !tags.length);
  if (document.activeElement !== byId("x-text")) byId("x-text").value = state.text;
}

// Ask for rows: those after the shown ones, or the first of a new query.
async function load(offset) {
  const mine = pending;
  try {
    const answer = await source.ask(state, offset, PAGE, mine.signal);
    if (pending !== mine) return;
    byId("x-message").hidden = true;
    if (!offset) showControls(answer.counts);
    shown = [...shown.slice(0, offset), ...answer.rows];
    total = answer.count;
    const cards = answer.rows.map((row, i) => makeCard(row, offset + i));
    if (offset) byId("x-cards").append(...cards); else byId("x-cards").replaceChildren(...cards);
    showStatus();
  } catch (error) {
    if (error.name === "AbortError") return;
    byId("x-message").textContent = error.message;
    byId("x-message").hidden = false;
  }
}

async function show() {
  if (pending) pending.abort();
  pending = new AbortController();
  if (state.b >= 0 && (state.b === state.a || !sameBenchmark(state.a, state.b))) state.b = -1;
  if (state.b < 0 && PAIRS.includes(state.outcome)) state.outcome = "";
  if (state.b < 0 && ["gain", "loss"].includes(state.sort)) state.sort = "worst";
  await load(0);
}

async function more() {
  if (shown.length >= total || more.busy) return;
  more.busy = true;
  await load(shown.length);
  more.busy = false;
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

// Cards.
function makeCaption(row, j) {
  const text = row.captions[j], right = isRight(row, j);
  const others = row.captions.map((_, i) => i).filter((i) => i !== j);
  const unlike = others.filter((i) => isRight(row, i) !== right);
  const other = (unlike.length || row.match.length < 2 ? unlike : others)[0];
  const words = other === undefined || text.length > 2000 ? [text]
    : changedWords(text, row.captions[other]);
  if (row.match.length === 1 && row.match[0].includes("0"))
    words.push(" ", make("small", right ? "right" : "wrong", right ? "right" : "wrong"));
  return make("li", "", ...words);
}

const makeCaptions = (row) => row.captions.length
  ? [make("ol", "captions", ...row.captions.map((_, j) => makeCaption(row, j)))] : [];

function makeBadge(row, run, name = "") {
  const sign = outcomeOf(row, run), margin = row.runs[run].margin;
  return make("span", "", ...(name ? [make("span", "run", `${name} `)] : []),
    make("span", `badge o-${sign}`, OUTCOMES[sign] || "not in this run"),
    margin === undefined ? "" : ` ${signed(margin)} sd`);
}

function makeImage(row, i, large) {
  const address = source.image(row.images[i], large);
  const missing = make("div", "missing",
    data.server ? "the image cannot be opened" : "no image in this file");
  const several = row.images.length > 1;
  const words = several ? [letter(i), row.labels[i]].join(" ").trim() : row.labels[i];
  if (!address) return make("div", "", missing, words);
  const image = make("img");
  image.alt = row.captions.filter((_, j) => (row.match[i] || "")[j] === "1").join("; ")
    || `image ${i + 1} of ${row.id}`;
  image.loading = "lazy";
  image.addEventListener("error", () => image.replaceWith(missing));
  image.src = address;
  return make("div", "", image, words);
}

const makeImages = (row, large) => row.images.length
  ? [make("div", "images", ...row.images.map((_, i) => makeImage(row, i, large)))] : [];

// Scores of a run: images are rows and captions are columns.
function makeMatrix(row, run) {
  const scores = row.runs[run].scores;
  if (!scores) return [];
  const values = scores.flat().filter((value) => value !== null);
  const low = Math.min(...values), high = Math.max(...values);
  const makeCell = (value, i, j) => {
    const fits = row.match[i][j] === "1", line = scores[i], column = scores.map((other) => other[j]);
    const best = (some) => some.length > 1 && value !== null && value === Math.max(...some);
    const cell = make("td", fits ? "fit" : "", number(value), best(line) ? "▴" : "",
      best(column) ? "◂" : "");
    const share = high > low ? Math.round((28 * (value - low)) / (high - low)) : 0;
    cell.style.background = `color-mix(in srgb, var(--accent) ${share}%, transparent)`;
    cell.title = `${row.captions[j] || "caption " + (j + 1)}: ${fits ? "right" : "wrong"}`;
    return cell;
  };
  const head = make("tr", "", make("th"), ...scores[0].map((_, j) => make("th", "", j + 1)));
  const lines = scores.map((line, i) => make("tr", "", make("th", "", scores[1] ? letter(i) : ""),
    ...line.map((value, j) => makeCell(value, i, j))));
  const table = make("table", "matrix", make("thead", "", head), make("tbody", "", ...lines));
  const words = [data.runs[run].label];
  if (row.match.join() === "10,01" && values.length === 4) {  // equivariance
    const [[a, b], [c, d]] = scores, spread = data.runs[run].spread;
    const e = [(a - b) - (d - c), (a - c) - (d - b)].map((value) => signed(value / spread));
    words.push(`e text ${e[0]}, image ${e[1]} sd`);
  }
  return [make("figure", "", table, make("figcaption", "", words.join(" · ")))];
}

function makeReplies(row, run, most) {
  return (row.runs[run].replies || []).slice(0, most).flatMap(([prompt, reply, right]) => [
    make("p", "note reply", prompt), make("p", right ? "right reply" : "wrong reply", reply)]);
}

function makeCard(row, at) {
  const runs = state.b < 0 ? [state.a] : [state.a, state.b];
  const card = make("article", "example",
    make("header", "", make("span", "", row.parts[0] || `example ${row.id}`)),
    make("div", "outcomes", ...runs.map((run, i) => makeBadge(row, run, runs[1] >= 0 ? "AB"[i] : ""))),
    ...makeImages(row, false), ...makeCaptions(row),
    make("div", "matrices", ...runs.flatMap((run) => makeMatrix(row, run))),
    ...runs.filter((run) => row.runs[run].why)
      .map((run) => make("p", "note", `skipped: ${row.runs[run].why}`)),
    ...runs.flatMap((run) => makeReplies(row, run, 1)),
    ...(row.parts.length ? [make("p", "note", `example ${row.id}`)] : []));
  card.classList.toggle("wide", row.images.length > 2);
  card.tabIndex = 0;
  card.addEventListener("click", () => openExample(at));
  return card;
}

// The open example.
function explainCommand(row, run) {
  const { model, score, folder, key } = data.runs[run];
  const right = row.captions.findIndex((_, j) => isRight(row, j));
  const wrong = row.captions.findIndex((_, j) => (row.match[0] || "")[j] !== "1");
  if (!model || right < 0 || !row.images.length) return "";
  const image = Math.max(row.match.findIndex((line) => line[right] === "1"), 0);
  const words = ["contrapose", "explain", model, "--image", row.files[image] || "image.png",
    "--text", row.captions[right]];
  if (wrong >= 0 && wrong !== right) words.push("--against", row.captions[wrong]);
  const base = (score || "").split(/[-:]/)[0];
  if (["itc", "itm", "lm", "vqa"].includes(base)) words.push("--score", base);
  if (folder) words.push("--out", `${folder}/explanations/${row.key}-${key}.html`);
  return words.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word
    : `'${word.replaceAll("'", `'\\''`)}'`)).join(" ");
}

function makeExplanation(row, run) {
  const command = explainCommand(row, run), address = source.explanation(row, data.runs[run]);
  if (!command) return [];
  const parts = [make("p", "note", "What each word and region adds to the score:"),
    make("pre", "command", command), makeCopyButton("copy the command", () => command)];
  if (command.includes(" image.png "))
    parts.push(make("span", "note", " (save the image above as image.png first)"));
  if (address && data.runs[run].folder)
    parts.push(" ", Object.assign(make("a", "explanation", data.server ? "open the explanation"
      : "open the explanation, once the command has run"),
    { href: address, target: "_blank", rel: "noopener" }));
  return parts;
}

function showDetail() {
  const row = shown[open], facts = make("dl");
  const runs = data.runs.map((_, run) => run)
    .filter((run) => sameBenchmark(run, state.a) && /[^-]/.test(row.runs[run].outcomes));
  const fact = (name, ...words) => facts.append(make("dt", "", name), make("dd", "", ...words));
  for (const run of runs) {
    const others = data.metrics.slice(1).map((metric) => [metric, outcomeOf(row, run, metric)])
      .filter(([, sign]) => sign in OUTCOMES);
    fact(data.runs[run].label, makeBadge(row, run),
      ...others.map(([metric, sign]) => ` · ${plainName(metric)}: ${OUTCOMES[sign]}`),
      row.runs[run].why ? ` · ${row.runs[run].why}` : "");
  }
  for (const [tag, values] of Object.entries(row.tags)) fact(tag, values.join(", "));
  const several = row.files.length > 1;
  row.files.forEach((file, i) => file && fact(`image ${several ? letter(i) : ""}`, file));
  byId("x-title").textContent = [data.benchmarks[row.benchmark], ...row.parts, row.id].join(" · ");
  byId("x-detail").replaceChildren(...makeImages(row, true), ...makeCaptions(row),
    make("div", "matrices", ...runs.flatMap((run) => makeMatrix(row, run))), facts,
    ...runs.flatMap((run) => makeReplies(row, run, 6)), ...makeExplanation(row, state.a));
  byId("x-prev").disabled = open === 0;
  byId("x-next").disabled = open >= total - 1;
  if (!byId("x-dialog").open) byId("x-dialog").showModal();
  byId("x-dialog").scrollTop = 0;
}

async function openExample(at) {
  if (at >= shown.length) await more();
  if (at < 0 || at >= shown.length) return;
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
  const active = document.activeElement, dialog = byId("x-dialog"), help = byId("x-help");
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(active.tagName), closed = !dialog.open && !help.open;
  if (event.key === "Escape" && closed) {
    if (typing) active.blur();
    byId("x-text").value = "";
    change({ ...plainState(), a: state.a, b: state.b });
    return;
  }
  const step = { j: 1, ArrowRight: 1, ArrowDown: 1, k: -1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  const onCard = active.classList.contains("example");
  if (typing) return;
  if (event.key === "?" && !help.open) help.showModal();
  else if (event.key === "/" && !dialog.open) byId("x-text").focus();
  else if (step && dialog.open && !/Up|Down/.test(event.key)) openExample(open + step);
  else if (step && closed && ("jk".includes(event.key) || onCard)) moveFocus(step);
  else if (event.key === "Enter" && onCard && !dialog.open) active.click();
  else return;
  event.preventDefault();
}

function startExplorer() {
  const on = (id, name, act) => byId(id).addEventListener(name, (event) => act(event.target, event));
  const choose = (name, parse) => on(`x-${name}`, "change", (node) => change(parse(node.value)));
  for (const name of ["a", "b"]) choose(name, (value) => ({ [name]: Number(value) }));
  for (const name of ["metric", "outcome", "part", "sort"]) choose(name, (value) => ({ [name]: value }));
  choose("tag", (text) => {
    const [tag, value] = text ? JSON.parse(text) : ["", ""];
    return { tag, value };
  });
  on("x-text", "input", (node) => change({ text: node.value }, 150));
  on("x-filters", "submit", (_, event) => event.preventDefault());
  on("x-more", "click", more);
  on("x-prev", "click", () => openExample(open - 1));
  on("x-next", "click", () => openExample(open + 1));
  for (const [id, button] of [["x-dialog", "x-close"], ["x-help", "x-help-close"]]) {
    on(button, "click", () => byId(id).close());
    on(id, "click", (node) => { if (node === byId(id)) node.close(); });
  }
  on("x-dialog", "close", () => byId("x-cards").children[open]?.focus());
  document.addEventListener("keydown", pressKey);
  window.addEventListener("hashchange", () => {
    if (location.hash.startsWith("#x?")) { state = readHash(); show(); }
  });
  byId("x-about").textContent = data.about;
  state = readHash();
  show();
}

startExplorer();
