// A table that can be sorted, whose rows can be picked, and that shows part of its rows until more are asked for.

import { whole } from "./format.js";
import { restyle, symbol } from "./palette.js";
import { roving } from "./roving.js";

const FIRST = 12; // rows at first
const PAGE = 50; // ... and each time that more are asked for

/**
 * table: its element. more: a button. select(name): called for a cell that names an edge.
 * columns: {label, title, text(row), value(row) to sort by, name(row) if it is that of an edge, style(row) of the mark
 * before the text if there is one, bad(row)}.
 */
export function table(element, more, columns, select) {
  const head = element.createTHead().insertRow();
  const body = element.createTBody();
  let [rows, selected] = [[], null];
  let limit = FIRST;
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
    limit += PAGE;
    show();
  });
  roving(element.tHead);
  roving(body);

  function inOrder() {
    const { column, down } = sorted;
    if (!column) return rows;
    const value = column.value ?? column.text;
    const sign = down ? -1 : 1;
    return [...rows].sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      if (x === null || y === null) return (x === null) - (y === null); // nothing to show comes last either way
      return sign * (typeof x === "string" ? x.localeCompare(y, "en", { numeric: true }) : x - y);
    });
  }

  function show() {
    headers.forEach((cell, i) => {
      const by = sorted.column === columns[i];
      if (by) cell.setAttribute("aria-sort", sorted.down ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    });
    const shown = inOrder().slice(0, limit);
    while (body.rows.length > shown.length) body.deleteRow(-1);
    while (body.rows.length < shown.length) body.append(emptyRow());
    shown.forEach((row, i) => fill(body.rows[i], row));
    const left = rows.length - shown.length;
    more.hidden = left <= 0;
    more.textContent = `Show ${whole(Math.min(PAGE, left))} more of ${whole(rows.length)}`;
  }

  function emptyRow() {
    const line = document.createElement("tr");
    columns.forEach((column, i) => {
      const cell = document.createElement(i ? "td" : "th");
      if (!i) cell.scope = "row";
      if (column.value) cell.className = "number";
      if (column.style) cell.append(symbol(), document.createElement("span"));
      if (column.name) {
        const button = document.createElement("button");
        button.type = "button";
        button.className = "pick";
        button.addEventListener("click", () => select(column.name(line.shows)));
        cell.append(button);
      }
      line.append(cell);
    });
    line.addEventListener("click", (event) => {
      if (!event.target.closest("button")) select(columns[0].name(line.shows));
    });
    line.texts = [];
    return line;
  }

  /** Only what is new is written: most of the time that is little. */
  function fill(line, row) {
    line.shows = row;
    columns.forEach((column, i) => {
      const text = column.text(row);
      const bad = Boolean(column.bad?.(row));
      const cell = line.cells[i];
      if (line.texts[i] !== text) {
        line.texts[i] = text;
        (cell.lastChild ?? cell).textContent = text;
      }
      if (column.style) restyle(cell.firstChild, column.style(row));
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
