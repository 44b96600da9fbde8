// In the page: how long its frames take, and when the first view stands there.
let asked = 0;
globalThis.frames = [];
globalThis.paint = 0;
const soon = globalThis.requestAnimationFrame.bind(globalThis);
globalThis.requestAnimationFrame = (draw) => soon((time) => {
    const began = performance.now();
    draw(time);
    document.body?.offsetHeight;  // and what it takes to lay out
    globalThis.frames.push(performance.now() - began);
});
addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.shiftKey) asked = performance.now();
}, true);
new MutationObserver(() => {
    if (globalThis.paint || !document.querySelector(".wb .wb-row")) return;
    soon(() => soon(() => { globalThis.paint ||= performance.now() - asked; }));
}).observe(document, { childList: true, subtree: true });
