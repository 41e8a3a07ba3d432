// Light or dark: as the system has it, until the user says otherwise.

const STORED = "alphaedge-theme";

/** button: toggles it. changed(): called when colours are other ones than before. */
export function theme(button, changed) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (document.documentElement.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
  // What a click does, not what is on: a word such as "Dark" alone could mean either.
  const show = () => (button.textContent = `Switch to ${isDark() ? "light" : "dark"}`);
  const stored = localStorage.getItem(STORED);
  if (stored === "dark" || stored === "light") document.documentElement.dataset.theme = stored;
  button.addEventListener("click", () => {
    const next = isDark() ? "light" : "dark";
    // What the system has anyway is not kept, so that the page goes on following it.
    if (next === (system.matches ? "dark" : "light")) {
      delete document.documentElement.dataset.theme;
      localStorage.removeItem(STORED);
    } else {
      document.documentElement.dataset.theme = next;
      localStorage.setItem(STORED, next);
    }
    show();
    changed();
  });
  system.addEventListener("change", () => {
    show();
    changed();
  });
  show();
}
