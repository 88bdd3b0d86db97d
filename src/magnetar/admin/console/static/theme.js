// Before anything is drawn: the colours that were chosen here, if any were.
(() => {
  try {
    const chosen = localStorage.getItem("magnetar.theme");
    if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
  } catch {
    // Without storage the system's colours are used.
  }
})();
