// The theme's search dialog has no name for a screen reader, and what scrolls by itself cannot be reached by keyboard.
document$.subscribe(() => {
  document.querySelector("[data-md-component=search]")?.setAttribute("aria-label", "Search");
  document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset pre > code").forEach((element) => {
    if (element.scrollWidth > element.clientWidth) element.setAttribute("tabindex", "0");
  });
});
