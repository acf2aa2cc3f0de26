"use strict";
// Captions and file names enter the page as text and attributes only, never as markup.
const byId = (id) => document.getElementById(id);
const build = JSON.parse(byId("data").textContent);
const pairs = build.pairs, key = "contrapose-review:" + build.build;
const known = new Set(pairs.map((pair) => pair.id));
const decisions = new Map(), history = [];
const images = Array.from(document.querySelectorAll("figure img"));
const captions = Array.from(document.querySelectorAll("figcaption"));
let list = pairs, at = 0;

function complain(text) {
  byId("message").textContent = text;
  byId("message").hidden = !text;
}

function read(values) {
  for (const [id, decision] of Object.entries(values))
    if (known.has(id) && (decision === "keep" || decision === "drop")) decisions.set(id, decision);
}

function store() {
  try {
    localStorage.setItem(key, JSON.stringify(Object.fromEntries(decisions)));
  } catch {
    complain("This browser keeps nothing for this page: download the decisions before you close it.");
  }
}

function restore() {
  try {
    read(JSON.parse(localStorage.getItem(key) || "{}"));
  } catch {
    complain("The decisions in this browser cannot be read; the review begins anew.");
  }
}

const counts = () => {
  const values = Array.from(decisions.values());
  return { keep: values.filter((one) => one === "keep").length, all: values.length };
};

function showProgress() {
  const { keep, all } = counts(), bar = byId("bar"), drop = all - keep;
  bar.firstChild.style.flex = `0 0 ${100 * keep / pairs.length}%`;
  bar.lastChild.style.flex = `0 0 ${100 * drop / pairs.length}%`;
  bar.setAttribute("aria-valuemax", pairs.length);
  bar.setAttribute("aria-valuenow", all);
  byId("count").textContent = `${all} of ${pairs.length} decided: ${keep} kept, ${drop} dropped`;
  byId("undo").disabled = !history.length;
  byId("save").classList.toggle("done", all === pairs.length);
}

// Words that both captions share at their start and end stay plain; those between are marked.
function showCaption(node, caption, other) {
  const words = caption.split(" "), rest = other.split(" ");
  const most = Math.min(words.length, rest.length);
  let start = 0, end = 0;
  while (start < most && words[start] === rest[start]) start++;
  while (end < most - start && words[words.length - 1 - end] === rest[rest.length - 1 - end]) end++;
  const changed = words.slice(start, words.length - end).join(" ");
  const mark = document.createElement("mark");
  mark.textContent = changed;
  node.replaceChildren(
    words.slice(0, start).join(" ") + (start ? " " : ""), ...(changed ? [mark] : []),
    (end && changed ? " " : "") + words.slice(words.length - end).join(" "));
}

function show() {
  showProgress();
  byId("pair").hidden = !list.length;
  byId("empty").hidden = list.length > 0;
  for (const id of ["keep", "drop", "back", "next"]) byId(id).disabled = !list.length;
  if (!list.length) return;
  at = Math.max(0, Math.min(at, list.length - 1));
  const pair = list[at], decision = decisions.get(pair.id);
  byId("pair").className = decision || "";
  images.forEach((image, i) => {
    image.src = pair.images[i];
    image.alt = pair.captions[i];
    showCaption(captions[i], pair.captions[i], pair.captions[1 - i]);
  });
  const state = document.createElement("b");
  state.textContent = decision === "keep" ? "kept" : decision === "drop" ? "dropped" : "undecided";
  const score = pair.score === null ? [] : [`score ${pair.score.toFixed(3)}`];
  const words = [`${at + 1} of ${list.length}`, pair.id, pair.kind, ...score, ...pair.notes];
  byId("about").replaceChildren(state, " ", words.join(" · "));
  byId("back").disabled = at === 0;
  byId("next").disabled = at === list.length - 1;
  for (const near of [list[at + 1], list[at - 1]])
    if (near) near.images.forEach((source) => { new Image().src = source; });
}

function choose() {
  const kind = byId("kind").value, state = byId("state").value, current = list[at];
  const limited = build.scores && Number(byId("score").value) < Number(byId("score").max);
  byId("limit").textContent = limited ? Number(byId("score").value).toFixed(3) : "any";
  list = pairs.filter((pair) => (!kind || pair.kind === kind)
    && (state === "all" || (decisions.get(pair.id) || "open") === state)
    && (!limited || (pair.score !== null && pair.score <= Number(byId("score").value))));
  if (byId("order").value === "score")
    list.sort((one, other) => (one.score ?? Infinity) - (other.score ?? Infinity));
  at = Math.max(0, list.indexOf(current));
  show();
}

function decide(decision) {
  const pair = list[at];
  if (!pair) return;
  history.push([pair.id, decisions.get(pair.id)]);
  decisions.set(pair.id, decision);
  store();
  if (byId("state").value === "all") {
    at++;
    show();
  } else {  // the pair may leave the list, and the next takes its place
    const before = at;
    choose();
    at = list.includes(pair) ? before + 1 : before;
    show();
  }
}

function undo() {
  const last = history.pop();
  if (!last) return;
  const [id, before] = last;
  if (before) decisions.set(id, before); else decisions.delete(id);
  store();
  choose();
  const position = list.findIndex((pair) => pair.id === id);
  if (position >= 0) at = position;
  show();
}

function move(step) {
  at += step;
  show();
}

function save() {
  const { keep, all } = counts();
  const content = {
    format: "contrapose-decisions", version: 1, build: build.build, name: build.name,
    pairs: pairs.length, kept: keep, dropped: all - keep, decisions: Object.fromEntries(decisions),
  };
  const link = document.createElement("a");
  link.href = URL.createObjectURL(
    new Blob([JSON.stringify(content, null, 1) + "\n"], { type: "application/json" }));
  link.download = "decisions.json";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

async function load(file) {
  try {
    const content = JSON.parse(await file.text());
    if (content.format !== "contrapose-decisions") throw new Error("It holds no decisions.");
    if (content.build !== build.build) throw new Error("It belongs to another build.");
    read(content.decisions);
    complain("");
    store();
    choose();
  } catch (error) {
    complain(`${file.name} cannot be used. ${error.message}`);
  }
}

const keys = {
  k: () => decide("keep"), d: () => decide("drop"), u: undo, z: undo, s: save,
  ArrowLeft: () => move(-1), ArrowRight: () => move(1),
  Home: () => move(-list.length), End: () => move(list.length),
};
addEventListener("keydown", (event) => {
  const typing = event.target.closest("select, input");
  const action = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
  if (typing && event.key.length > 1) return;  // arrows move a slider or a list
  event.preventDefault();
  action();
});

let touch = null;
const area = byId("pair");
area.addEventListener("touchstart", (event) => {
  touch = event.touches.length === 1 ? event.touches[0] : null;
}, { passive: true });
area.addEventListener("touchend", (event) => {
  if (!touch) return;
  const end = event.changedTouches[0];
  const x = end.clientX - touch.clientX, y = end.clientY - touch.clientY;
  touch = null;
  if (Math.abs(x) > 70 && Math.abs(x) > 2 * Math.abs(y)) decide(x > 0 ? "keep" : "drop");
}, { passive: true });

byId("keep").addEventListener("click", () => decide("keep"));
byId("drop").addEventListener("click", () => decide("drop"));
byId("undo").addEventListener("click", undo);
byId("back").addEventListener("click", () => move(-1));
byId("next").addEventListener("click", () => move(1));
byId("save").addEventListener("click", save);
byId("load").addEventListener("change", (event) => {
  if (event.target.files.length) load(event.target.files[0]);
  event.target.value = "";
});
for (const id of ["kind", "state"]) byId(id).addEventListener("change", choose);
byId("order").addEventListener("change", () => {
  choose();
  move(-list.length);
});
byId("score").addEventListener("input", choose);
images.forEach((image) => image.addEventListener("error", () => {
  complain("An image cannot be opened: is this page still beside the pairs it was made of?");
}));

document.title = `Review: ${build.name}`;
byId("title").textContent = build.name;
const kinds = Array.from(new Set(pairs.map((pair) => pair.kind)));
for (const kind of ["", ...kinds]) {
  const choice = document.createElement("option");
  choice.value = kind;
  choice.textContent = kind || "all";
  byId("kind").append(choice);
}
if (build.scores) {
  const [least, most] = build.scores, slider = byId("score");
  slider.min = least;
  slider.max = most;
  slider.step = (most - least) / 200 || 1;
  slider.value = most;
  byId("scores").hidden = byId("orders").hidden = false;
}
restore();
const open = pairs.findIndex((pair) => !decisions.has(pair.id));
at = Math.max(0, open);
choose();
at = Math.max(0, open);
show();
