// A table with sortable columns and selectable rows, which shows more rows on request.

import { formatCount } from "./format.js";
import { makeSymbol, styleSymbol } from "./palette.js";
import { rovingFocus } from "./roving.js";

const FIRST_ROWS = 12;
const MORE_ROWS = 50;

/**
 * element: the table. more: a button for more rows. select(name): called when the user picks an edge.
 * columns: {label, title, text(row), value(row) to sort by, name(row) if the cell names an edge, style(row) of a symbol
 * before the text, bad(row)}.
 */
export function table(element, more, columns, select) {
  const head = element.createTHead().insertRow();
  const body = element.createTBody();
  let [rows, selected] = [[], null];
  let limit = FIRST_ROWS;
  let sorted = { column: null, down: true };

  const headers = columns.map((column) => {
    const cell = document.createElement("th");
    const button = document.createElement("button");
    cell.scope = "col";
    cell.className = column.value ? "number" : "";
    button.type = "button";
    button.textContent = column.label;
    if (column.title) button.title = column.title;
    button.addEventListener("click", () => {
      const again = sorted.column === column;
      const down = again ? !sorted.down : Boolean(column.value);
      sorted = again && sorted.down !== Boolean(column.value) ? { column: null } : { column, down };
      show();
    });
    cell.append(button);
    head.append(cell);
    return cell;
  });
  more.addEventListener("click", () => {
    limit += MORE_ROWS;
    show();
  });
  rovingFocus(element.tHead);
  rovingFocus(body);

  function sortedRows() {
    const { column, down } = sorted;
    if (!column) return rows;
    const value = column.value ?? column.text;
    const sign = down ? -1 : 1;
    return [...rows].sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      if (x === null || y === null) return (x === null) - (y === null); // empty cells come last either way
      return sign * (typeof x === "string" ? x.localeCompare(y, "en", { numeric: true }) : x - y);
    });
  }

  function show() {
    headers.forEach((cell, i) => {
      const by = sorted.column === columns[i];
      if (by) cell.setAttribute("aria-sort", sorted.down ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    });
    const shown = sortedRows().slice(0, limit);
    while (body.rows.length > shown.length) body.deleteRow(-1);
    while (body.rows.length < shown.length) body.append(makeRow());
    shown.forEach((row, i) => fill(body.rows[i], row));
    const left = rows.length - shown.length;
    more.hidden = left <= 0;
    more.textContent = `Show ${formatCount(Math.min(MORE_ROWS, left))} more of ${formatCount(rows.length)}`;
  }

  function makeRow() {
    const line = document.createElement("tr");
    columns.forEach((column, i) => {
      const cell = document.createElement(i ? "td" : "th");
      if (!i) cell.scope = "row";
      if (column.value) cell.className = "number";
      if (column.style) cell.append(makeSymbol(), document.createElement("span"));
      if (column.name) {
        const button = document.createElement("button");
        button.type = "button";
        button.className = "pick";
        button.addEventListener("click", () => select(column.name(line.row)));
        cell.append(button);
      }
      line.append(cell);
    });
    line.addEventListener("click", (event) => {
      if (!event.target.closest("button")) select(columns[0].name(line.row));
    });
    line.texts = [];
    return line;
  }

  /** Write only what has changed, which is little most of the time. */
  function fill(line, row) {
    line.row = row;
    columns.forEach((column, i) => {
      const text = column.text(row);
      const bad = Boolean(column.bad?.(row));
      const cell = line.cells[i];
      if (line.texts[i] !== text) {
        line.texts[i] = text;
        (cell.lastChild ?? cell).textContent = text;
      }
      if (column.style) styleSymbol(cell.firstChild, column.style(row));
      if (column.bad && cell.classList.contains("bad") !== bad) cell.classList.toggle("bad", bad);
    });
    const chosen = selected !== null && columns[0].name(row) === selected;
    if (line.classList.contains("chosen") === chosen) return;
    line.classList.toggle("chosen", chosen);
    line.cells[0].firstChild.setAttribute("aria-pressed", String(chosen));
  }

  return {
    draw(next, name) {
      [rows, selected] = [next, name];
      show();
    },
  };
}
