// Roving focus: one Tab stop for a whole list or table; arrow keys, Home and End move inside of it.

/** box: an element whose children (rows or entries) have one button or more each. */
export function rovingFocus(box) {
  let stop = null; // the button that Tab moves to: the one used last
  const lines = () => [...box.children].map((line) => [...line.querySelectorAll("button")]);

  const update = () => {
    if (!box.contains(stop)) stop = null;
    const buttons = lines().flat();
    const chosen = stop ?? buttons[0]; // until one was used, always the first
    for (const button of buttons) {
      const place = button === chosen ? 0 : -1;
      if (button.getAttribute("tabindex") !== `${place}`) button.tabIndex = place;
    }
  };
  box.addEventListener("focusin", (event) => {
    stop = event.target.closest("button");
    update();
  });
  box.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return; // these are the browser's
    const next = nextButton(lines(), event.target, event.key);
    if (!next) return;
    event.preventDefault(); // otherwise the page scrolls too
    next.focus();
  });
  new MutationObserver(update).observe(box, { childList: true });
  update();
}

/** Return the button that a key moves to from a button: itself at an end, null for other keys. */
function nextButton(all, button, key) {
  const row = all.findIndex((line) => line.includes(button));
  if (row < 0) return null;
  const column = all[row].indexOf(button);
  const flat = all.length === 1; // a single line has its ends left and right
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
