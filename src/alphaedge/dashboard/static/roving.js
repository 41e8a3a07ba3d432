// One stop for the Tab key in a whole list or table; arrow keys, Home and End go on inside of it.

/** box: its children are the lines (rows of a table, entries of a list), with one button or more each. */
export function roving(box) {
  let stop = null; // the button that Tab leads to: the one that was used last
  const lines = () => [...box.children].map((line) => [...line.querySelectorAll("button")]);

  const settle = () => {
    if (!box.contains(stop)) stop = null;
    const buttons = lines().flat();
    const chosen = stop ?? buttons[0]; // until one was used it is the first, also when others come before it
    for (const button of buttons) {
      const place = button === chosen ? 0 : -1;
      if (button.getAttribute("tabindex") !== `${place}`) button.tabIndex = place;
    }
  };
  box.addEventListener("focusin", (event) => {
    stop = event.target.closest("button");
    settle();
  });
  box.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return; // those are the browser's
    const next = neighbour(lines(), event.target, event.key);
    if (!next) return;
    event.preventDefault(); // else the page scrolls too
    next.focus();
  });
  new MutationObserver(settle).observe(box, { childList: true });
  settle();
}

/** Where a key leads from a button; at an end, the button itself. Nothing if the key has no meaning here. */
function neighbour(all, button, key) {
  const row = all.findIndex((line) => line.includes(button));
  if (row < 0) return null;
  const column = all[row].indexOf(button);
  const flat = all.length === 1; // a line alone has its ends left and right
  const last = all.length - 1;
  const to = {
    ArrowUp: [row - 1, column],
    ArrowDown: [row + 1, column],
    ArrowLeft: [row, column - 1],
    ArrowRight: [row, column + 1],
    Home: flat ? [0, 0] : [0, column],
    End: flat ? [0, all[0].length - 1] : [last, column],
  }[key];
  return to ? (all[to[0]]?.[to[1]] ?? button) : null;
}
