"use strict";
// Data of the server enters the page as text and attributes only, never as markup.
const byId = (id) => document.getElementById(id);
const grid = byId("grid"), edit = byId("edit"), slider = byId("lambda");
const previews = new Map();  // upload id → address of the dropped image
let index = null, state = null, pending = null, timer = 0, listed = 0;

function make(tag, name, text) {
  const node = document.createElement(tag);
  if (name) node.className = name;
  if (text !== undefined) node.textContent = text;
  return node;
}

async function ask(address, options) {
  let answer;
  try {
    answer = await fetch(address, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server does not answer; is contrapose serve still running?");
  }
  const values = await answer.json();
  if (!answer.ok) throw new Error(values.error);
  return values;
}

const capital = (text) => text.replace(/^[a-z]/, (letter) => letter.toUpperCase());

function complain(text) {
  byId("message").textContent = capital(text);
  byId("message").hidden = !text;
}

const plain = { path: null, upload: null, edit: "", lambda: null, fusion: "", k: 30 };

function readHash() {
  const words = new URLSearchParams(location.hash.slice(1));
  const sizes = Array.from(byId("k").options, (choice) => Number(choice.value));
  const names = index.fusions.map((fusion) => fusion.name);
  const lambda = words.has("lambda") ? Number(words.get("lambda")) : NaN;
  return {
    path: words.get("image"), upload: words.get("upload"), edit: words.get("edit") || "",
    lambda: Number.isFinite(lambda) && lambda >= 0 ? lambda : null,
    fusion: names.includes(words.get("fusion")) ? words.get("fusion") : "",
    k: sizes.includes(Number(words.get("k"))) ? Number(words.get("k")) : plain.k,
  };
}

function writeHash(push) {
  const words = new URLSearchParams();
  if (state.path !== null) words.set("image", state.path);
  else if (state.upload !== null) words.set("upload", state.upload);
  for (const name of ["edit", "lambda", "fusion", "k"])
    if (state[name] !== plain[name]) words.set(name, state[name]);
  const hash = words.toString();
  const address = location.pathname + (hash ? "#" + hash : "");
  history[push ? "pushState" : "replaceState"](null, "", address);
}

function change(values, { push = false, wait = 0 } = {}) {
  if (!state) return;
  state = { ...state, ...values };
  writeHash(push);
  clearTimeout(timer);
  if (wait) timer = setTimeout(run, wait); else run();
}

function showControls() {
  if (document.activeElement !== edit || !state.edit) edit.value = state.edit;
  byId("fusion").value = state.fusion;
  byId("k").value = String(state.k);
  byId("auto").setAttribute("aria-pressed", String(state.lambda === null));
  if (state.path === null && state.upload === null) showQuery(null);
}

function showQuery(address, name) {
  const preview = byId("preview"), full = name !== undefined;
  byId("query").classList.toggle("full", full);
  byId("remove").hidden = !full;
  preview.hidden = !address;
  preview.alt = name || "";
  byId("query").title = name || "";
  byId("hint").textContent = full ? name : "Drop, paste or choose an image";
  if (!address) preview.removeAttribute("src");
  else if (preview.getAttribute("src") !== address) preview.src = address;
}

function showScale(fusion, lambda) {
  const kind = index.fusions.find((entry) => entry.name === fusion);
  const none = !kind || kind.lambda === null || lambda === null;
  slider.disabled = byId("auto").disabled = none;
  byId("value").textContent = none ? "–" : lambda.toFixed(2);
  if (none) return;
  slider.max = String(Math.max(kind.max_lambda, Math.ceil(lambda)));
  if (document.activeElement !== slider || state.lambda === null) slider.value = String(lambda);
}

async function run() {
  clearTimeout(timer);
  if (pending) pending.abort();
  const mine = pending = new AbortController();
  showControls();
  grid.classList.add("old");
  try {
    const { path, upload, edit: words, lambda, fusion, k } = state;
    if (path === null && upload === null && !words.trim()) {
      await browse(0, mine);
    } else {
      const body = { path, upload, edit: words, lambda, fusion: fusion || null, k };
      const answer = await ask("/api/search", {
        method: "POST", body: JSON.stringify(body), signal: mine.signal,
        headers: { "Content-Type": "application/json" },
      });
      await readIndex(answer.edition);
      if (pending !== mine) return;
      showResult(answer);
    }
    complain("");
  } catch (error) {
    if (error.name === "AbortError") return;
    complain(error.message);
    if (!grid.children.length) await browse(0, mine).catch(() => {});
  }
  if (pending === mine) grid.classList.remove("old");
}

// The index may be updated while the page is open: every answer names the edition it is from.
async function readIndex(edition) {
  if (index && index.edition === edition) return false;
  index = await ask("/api/index");
  byId("about").textContent = `${index.images.toLocaleString("en")} images · ${index.model}`;
  return true;
}

async function browse(offset, mine) {
  const answer = await ask("/api/images?offset=" + offset, { signal: mine.signal });
  if (await readIndex(answer.edition) && offset) return browse(0, mine);
  const tiles = answer.images.map((image) => makeTile(image, answer.edition));
  listed = offset + tiles.length;
  if (offset) grid.append(...tiles); else replaceTiles(tiles);
  byId("more").hidden = listed >= index.images;
  byId("status").textContent =
    `${listed.toLocaleString("en")} of ${index.images.toLocaleString("en")} images: click one, ` +
    "drop one, or type what you look for.";
  showScale(null, null);
}

function showResult(answer) {
  if (answer.row !== null) showQuery(imageAddress("image", answer.row, answer.edition), state.path);
  else if (state.upload !== null) showQuery(previews.get(state.upload), "dropped image");
  showScale(answer.fusion, answer.lambda);
  replaceTiles(answer.hits.map((hit) => makeTile(hit, answer.edition, answer)));
  byId("more").hidden = true;
  const kind = index.fusions.find((fusion) => fusion.name === answer.fusion);
  const words = [`${answer.hits.length} images by ${kind.name}: ${kind.title}.`];
  if (answer.left_out.length > 1)
    words.push(`Left out, copies of the query: ${answer.left_out.join(", ")}.`);
  words.push(...answer.notes.map(capital));
  byId("status").textContent = words.join(" ");
}

function replaceTiles(tiles) {
  const inside = grid.contains(document.activeElement);
  grid.replaceChildren(...tiles);
  if (tiles.length) tiles[0].tabIndex = 0;
  if (inside && tiles.length) tiles[0].focus();
}

const imageAddress = (kind, row, edition) => `/${kind}/${row}?v=${edition}`;

function makeTile(hit, edition, answer) {
  const tile = make("button", "tile"), image = make("img"), name = make("span", "name");
  tile.type = "button";
  tile.tabIndex = -1;
  image.loading = "lazy";
  image.draggable = false;
  image.alt = hit.path;
  image.addEventListener("error", () => tile.classList.add("broken"));
  image.src = imageAddress("thumbnail", hit.row, edition);
  name.append(make("span", "", hit.path.split("/").pop()));
  tile.append(image, name);
  if (answer) {
    name.append(make("span", "score", hit.score.toFixed(3)));
    tile.append(makeReasons(hit, answer));
  } else tile.title = hit.path;
  tile.addEventListener("click", () => change({ path: hit.path, upload: null }, { push: true }));
  tile.addEventListener("focus", () => {
    for (const other of grid.querySelectorAll('.tile[tabindex="0"]')) other.tabIndex = -1;
    tile.tabIndex = 0;
  });
  return tile;
}

function nameChange(change) {
  const [source, target] = change.split("->").map((word) => word.trim());
  return source && target ? `${source} → ${target}` : source ? `without ${source}` : `with ${target}`;
}

function makeReasons(hit, answer) {
  const why = make("span", "why"), edited = answer.fusion === "delta";
  let sum = 0;
  const add = (label, value, weight = null) => {
    const row = make("span", "row"), name = make("span", "", label), part = (weight ?? 1) * value;
    const bar = make("span", "bar" + (weight === null ? "" : part < 0 ? " minus" : " plus"));
    if (weight !== null) name.append(" ", make("i", "", `λ × ${value.toFixed(3)}`));
    row.append(name, make("span", "", part.toFixed(3).replace("-", "−")));
    bar.style.width = Math.min(100, Math.abs(part) * 100) + "%";
    why.append(row, bar);
    sum += part;
  };
  if (hit.image !== null) add("image", hit.image);
  if (hit.text !== null && !(edited && answer.text === null))
    add("text", hit.text, answer.fusion === "sum" ? answer.lambda : null);
  hit.changes.forEach((value, i) => {
    if (edited || answer.text !== null)
      add(nameChange(answer.changes[i]), value, edited ? answer.lambda : null);
  });
  const total = make("span", "row total"), score = make("span", "", "score");
  // With a free text beside changes the image is edited first, by a λ of its own.
  const adds = edited || (answer.fusion === "sum" && (answer.text === null || !hit.changes.length));
  if (adds && Math.abs(hit.score) > 1e-6)
    score.append(" ", make("i", "", `sum ÷ ${(sum / hit.score).toFixed(2)}`));
  total.append(score, make("span", "", hit.score.toFixed(3)));
  why.append(total, make("span", "path", hit.path));
  return why;
}

async function upload(file) {
  if (!index) return;
  if (!file) return complain("Only an image file can be dropped or pasted.");
  const most = index.max_upload_bytes;
  if (file.size > most)
    return complain(`More than ${most >> 20} MiB cannot be uploaded; make the image smaller.`);
  try {
    const answer = await ask("/api/upload", { method: "POST", body: file });
    if (answer.upload) previews.set(answer.upload, URL.createObjectURL(file));
    change({ path: answer.path ?? null, upload: answer.upload ?? null }, { push: true });
  } catch (error) {
    complain(error.message);
  }
}

function clearAll() {
  if (!state) return;
  edit.value = "";
  change({ ...plain, k: state.k }, { push: true });
}

function move(key) {
  const tiles = Array.from(grid.children);
  if (!tiles.length) return;
  const at = tiles.indexOf(document.activeElement);
  const columns = tiles.filter((tile) => tile.offsetTop === tiles[0].offsetTop).length;
  const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[key];
  if (at >= 0 && at + step < 0 && key === "ArrowUp") return edit.focus();
  const next = at < 0 ? 0 : Math.max(0, Math.min(tiles.length - 1, at + step));
  tiles[next].focus({ preventScroll: true });
  tiles[next].scrollIntoView({ block: "nearest" });
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const typing = event.target.matches("input, select");
  if (event.key === "Escape") clearAll();
  else if (event.key === "/" && event.target !== edit) edit.focus();
  else if (event.key.startsWith("Arrow") && (!typing || (event.target === edit && event.key === "ArrowDown")))
    move(event.key);
  else return;
  event.preventDefault();
});
let depth = 0;
const drag = (step) => document.body.classList.toggle("drag", (depth = Math.max(0, depth + step)) > 0);
addEventListener("dragenter", () => drag(1));
addEventListener("dragleave", () => drag(-1));
addEventListener("dragover", (event) => event.preventDefault());
addEventListener("drop", (event) => {
  event.preventDefault();
  drag(-depth);
  upload(event.dataTransfer.files[0]);
});
addEventListener("paste", (event) => {
  if (event.clipboardData.files.length) {
    event.preventDefault();
    upload(event.clipboardData.files[0]);
  }
});
byId("file").addEventListener("change", (event) => {
  if (event.target.files.length) upload(event.target.files[0]);
  event.target.value = "";
});
byId("form").addEventListener("submit", (event) => {
  event.preventDefault();
  change({ edit: edit.value });
});
edit.addEventListener("input", () => change({ edit: edit.value }, { wait: 250 }));
slider.addEventListener("input", () => {
  byId("value").textContent = Number(slider.value).toFixed(2);
  change({ lambda: Number(slider.value) }, { wait: 80 });
});
byId("auto").addEventListener("click", () => change({ lambda: null }));
byId("fusion").addEventListener("change", (event) => change({ fusion: event.target.value, lambda: null }));
byId("k").addEventListener("change", (event) => change({ k: Number(event.target.value) }));
byId("remove").addEventListener("click", () => change({ path: null, upload: null }, { push: true }));
byId("more").addEventListener("click", async () => {
  byId("more").disabled = true;
  await browse(listed, pending).catch((error) => error.name === "AbortError" || complain(error.message));
  byId("more").disabled = false;
});
new IntersectionObserver((seen) => seen[0].isIntersecting && byId("more").click())
  .observe(byId("more"));
addEventListener("popstate", () => { state = readHash(); edit.value = state.edit; run(); });
addEventListener("focus", async () => {  // back from another window: show what was indexed since
  if (!state) return;
  const { edition } = await ask("/api/index").catch(() => index);
  if (edition !== index.edition) run();
});

async function start() {
  try {
    await readIndex(null);
  } catch (error) {
    return complain(error.message);
  }
  document.title = `${index.name} · search`;
  byId("title").textContent = index.name;
  for (const fusion of index.fusions) {
    const choice = make("option", "", fusion.name);
    choice.title = fusion.title;
    byId("fusion").append(choice);
  }
  state = readHash();
  edit.value = state.edit;
  await run();
}
start();
