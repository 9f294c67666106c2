// Light or dark: as the system says, or as the reader chose on this page before. Runs before anything is painted.
"use strict";

const theme = {
  system: matchMedia("(prefers-color-scheme: dark)"),

  // null while the page follows the system. Some browsers refuse storage to a file.
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

  // Choosing what the system says anyway goes back to following it.
  turn() {
    const wanted = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    try {
      if (wanted === (this.system.matches ? "dark" : "light")) localStorage.removeItem("outrider-theme");
      else localStorage.setItem("outrider-theme", wanted);
    } catch {
      // It holds until the page is left.
    }
    this.show(wanted);
  },
};

theme.show();
theme.system.addEventListener("change", () => theme.show());
document.addEventListener("DOMContentLoaded", () => theme.show());
document.addEventListener("click", (event) => event.target.id === "theme" && theme.turn());
