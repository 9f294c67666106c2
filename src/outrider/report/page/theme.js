// Sets the light or dark theme before the page is painted: the reader's earlier choice, otherwise the system's theme.
"use strict";

const theme = {
  system: matchMedia("(prefers-color-scheme: dark)"),

  // Return the reader's choice; null if there is none, or if the browser denies storage to a local file.
  chosen() {
    try {
      return localStorage.getItem("outrider-theme");
    } catch {
      return null;
    }
  },

  now() {
    return this.chosen() ?? (this.system.matches ? "dark" : "light");
  },

  show(name = this.now()) {
    document.documentElement.dataset.theme = name;
    const other = name === "dark" ? "Light" : "Dark";
    const button = document.getElementById("theme");
    if (button) Object.assign(button, { textContent: other, hidden: false, title: `${other} colours` });
    document.dispatchEvent(new Event("theme"));
  },

  // Switch the theme. If the new theme is the system's theme, forget the choice and follow the system again.
  turn() {
    const wanted = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    try {
      if (wanted === (this.system.matches ? "dark" : "light")) localStorage.removeItem("outrider-theme");
      else localStorage.setItem("outrider-theme", wanted);
    } catch {
      // without storage, the choice lasts until the page is closed
    }
    this.show(wanted);
  },
};

theme.show();
theme.system.addEventListener("change", () => theme.show());
document.addEventListener("DOMContentLoaded", () => theme.show());
document.addEventListener("click", (event) => event.target.id === "theme" && theme.turn());
