// Canvases at the resolution of the screen, and tooltips over them.

/** Clear a canvas; return its context, scaled so that 1 is a CSS pixel, and its size in CSS pixels. */
export function prepare(canvas) {
  const scale = window.devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = canvas;
  const [w, h] = [Math.round(width * scale), Math.round(height * scale)];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
  }
  const ctx = canvas.getContext("2d");
  ctx.setTransform(scale, 0, 0, scale, 0, 0);
  ctx.clearRect(0, 0, width, height);
  ctx.setLineDash([]);
  ctx.globalAlpha = 1;
  ctx.lineJoin = "round";
  ctx.lineCap = "butt";
  ctx.textBaseline = "middle";
  return { ctx, width, height };
}

export const font = (colours, size, weight = 400) => `${weight} ${size}px ${colours.font}`;

/** Return text that is cut with an ellipsis if it is too wide. */
export function fitText(ctx, text, width) {
  if (ctx.measureText(text).width <= width) return text;
  let end = text.length;
  while (end > 1 && ctx.measureText(`${text.slice(0, end)}…`).width > width) end -= 1;
  return `${text.slice(0, end)}…`;
}

/** Call onMove with the position of the pointer in the canvas, null when it has left, and onClick with that of a click. */
export function trackPointer(canvas, onMove, onClick) {
  const position = (event) => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  canvas.addEventListener("pointermove", (event) => onMove(position(event)));
  canvas.addEventListener("pointerleave", () => onMove(null));
  canvas.addEventListener("click", (event) => onClick(position(event)));
}

/** A tooltip over a canvas. */
export function tooltip(canvas) {
  const box = document.createElement("div");
  box.className = "tooltip";
  box.setAttribute("aria-hidden", "true"); // the tables hold the same text
  box.hidden = true;
  canvas.parentElement.append(box);
  return {
    show({ x, y }, lines) {
      box.replaceChildren(...lines.map((text) => Object.assign(document.createElement("div"), { textContent: text })));
      box.hidden = false;
      const frame = canvas.parentElement;
      const left = canvas.offsetLeft + x + 14;
      const fits = left + box.offsetWidth <= frame.clientWidth;
      box.style.left = `${Math.max(0, fits ? left : canvas.offsetLeft + x - box.offsetWidth - 14)}px`;
      box.style.top = `${Math.max(0, Math.min(canvas.offsetTop + y + 10, frame.clientHeight - box.offsetHeight))}px`;
    },
    hide() {
      box.hidden = true;
    },
  };
}
