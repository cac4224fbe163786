// Elements, made without markup: a page whose policy forbids markup from text cannot be made to run a pool's name.

/** An element with attributes and children; those that are null are left out. */
export function h(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat(9).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Puts children in place of what an element has, unless they would look the same: what is open or focused stays so. */
export function show(element, ...children) {
  const fresh = h(element.tagName, {}, ...children);
  if (fresh.isEqualNode(skeleton(element))) return;
  const open = new Set([...element.querySelectorAll("details[open]")].map((details) => details.dataset.key));
  const focused = element.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  element.replaceChildren(...fresh.childNodes);
  for (const details of element.querySelectorAll("details")) details.open = open.has(details.dataset.key);
  if (focused) element.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
}

/** What an element has, without what people did to it. */
function skeleton(element) {
  const copy = h(element.tagName, {}, ...[...element.childNodes].map((child) => child.cloneNode(true)));
  for (const details of copy.querySelectorAll("details")) details.removeAttribute("open");
  return copy;
}

/** Sets a width in percent by the style object, which the page's policy allows. */
export function width(element, percent) {
  element.style.width = `${Math.max(0, Math.min(100, percent))}%`;
  return element;
}
