// A canvas that is as sharp as the screen, and the little note that follows the pointer over it.

/** Begin to draw: the context, scaled so that 1 is a CSS pixel, and the size in those. */
export function begin(canvas) {
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

/** Text that ends with an ellipsis if it is too wide. */
export function fitted(ctx, text, width) {
  if (ctx.measureText(text).width <= width) return text;
  let end = text.length;
  while (end > 1 && ctx.measureText(`${text.slice(0, end)}…`).width > width) end -= 1;
  return `${text.slice(0, end)}…`;
}

/** Call back with the place of the pointer in the canvas; null when it has left. */
export function pointer(canvas, moved, clicked) {
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  canvas.addEventListener("pointermove", (event) => moved(at(event)));
  canvas.addEventListener("pointerleave", () => moved(null));
  canvas.addEventListener("click", (event) => clicked(at(event)));
}

/** A note over a canvas. */
export function note(canvas) {
  const box = document.createElement("div");
  box.className = "note";
  box.setAttribute("aria-hidden", "true"); // it repeats what the tables say
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
