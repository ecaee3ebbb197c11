"use strict";
// Before the first paint, so that a chosen theme does not flicker.
(() => {
  try {
    const theme = localStorage.getItem("assay-theme");
    if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
  } catch { /* no storage: the system's setting holds */ }
})();
