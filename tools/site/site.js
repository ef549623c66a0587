// What scrolls sideways is reached with the Tab key, so that the arrow keys can scroll it, and is seen to go on.
const showMore = (region) =>
  region.toggleAttribute("data-more", region.scrollLeft + region.clientWidth < region.scrollWidth - 1);
const observer = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
    else target.removeAttribute("tabindex");
    showMore(target);
  }
});

addEventListener("DOMContentLoaded", () => {
  for (const region of document.querySelectorAll("pre, .output, .table-wrapper, .math-wrapper")) {
    observer.observe(region);
    region.addEventListener("scroll", () => showMore(region), { passive: true });
  }
  // Sphinx says that a part of the contents is a heading, and not of which level.
  for (const caption of document.querySelectorAll(".caption[role=heading]")) caption.setAttribute("aria-level", "2");
});
