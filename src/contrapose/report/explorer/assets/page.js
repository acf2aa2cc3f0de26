"use strict";
// Script of every page with tables: contents, tables that sort and copy as CSV. The explorer's uses
// its helpers too.
// Everything that comes from data enters the page as text or attributes, never as markup.
const byId = (id) => document.getElementById(id);

function make(tag, name, ...content) {
  const node = document.createElement(tag);
  if (name) node.className = name;
  node.append(...content.map((part) => (part instanceof Node ? part : String(part))));
  return node;
}

const count = (number) => number.toLocaleString("en");
const letter = (i) => String.fromCharCode(65 + i);
const plainName = (name) => name.replaceAll("_", " ");
const number = (value) => (value === null || value === undefined ? "–"
  : value.toFixed(Math.abs(value) >= 1000 ? 0 : 3).replace("-", "−"));
const signed = (value) => (value < 0 ? "−" : "+")
  + Math.abs(value).toFixed(value && Math.abs(value) < 0.005 ? 4 : 2);

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

function makeCopyButton(words, text) {
  const button = Object.assign(make("button", "csv", words), { type: "button" });
  button.addEventListener("click", () => copyText(text(), button));
  return button;
}

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
    table.after(makeCopyButton("copy as CSV", () => tableCsv(table)));
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

improveTables();
listContents();
