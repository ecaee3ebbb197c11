// What scrolls can be reached by the keyboard, and every bar of a code block has a name.
(() => {
  const name = () => {
    document.querySelectorAll(".md-code__nav").forEach((bar, i) => {
      bar.setAttribute("aria-label", `Code block ${i + 1}`);
    });
    for (const box of document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset p:has(> img:only-child)")) {
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    }
  };
  let waiting = false;
  const soon = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      name();
    });
  };
  new MutationObserver(soon).observe(document.body, { childList: true, subtree: true });
  addEventListener("resize", soon);
  soon();
})();
