// The light or dark theme: the system's, until the user chooses.

const THEME_KEY = "alphaedge-theme";

/** button: toggles the theme. onChange(): called when colours have changed. */
export function themeSwitch(button, onChange) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (document.documentElement.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
  // The text says what a click does: "Dark" alone could also be the current state.
  const show = () => (button.textContent = `Switch to ${isDark() ? "light" : "dark"}`);
  const stored = localStorage.getItem(THEME_KEY);
  if (stored === "dark" || stored === "light") document.documentElement.dataset.theme = stored;
  button.addEventListener("click", () => {
    const next = isDark() ? "light" : "dark";
    // The system's own theme is not stored, so that the page keeps following the system.
    if (next === (system.matches ? "dark" : "light")) {
      delete document.documentElement.dataset.theme;
      localStorage.removeItem(THEME_KEY);
    } else {
      document.documentElement.dataset.theme = next;
      localStorage.setItem(THEME_KEY, next);
    }
    show();
    onChange();
  });
  system.addEventListener("change", () => {
    show();
    onChange();
  });
  show();
}
