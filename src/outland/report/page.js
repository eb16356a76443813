// Headings sort their table, the filter hides rows, and a click on a command copies it.
const keyOf = (row, index) => {
  const cell = row.cells[index];
  const text = cell.dataset.value ?? cell.textContent.trim();
  const number = Number(text);
  return { empty: text === "" || text === "–", number: text !== "" && !Number.isNaN(number) ? number : null, text };
};
const compare = (a, b) =>
  a.number !== null && b.number !== null ? a.number - b.number : a.text.localeCompare(b.text, "en", { numeric: true });
for (const table of document.querySelectorAll("table.sortable")) {
  for (const button of table.querySelectorAll("thead button")) {
    button.addEventListener("click", () => {
      const heading = button.closest("th");
      const index = heading.cellIndex;
      const first = heading.classList.contains("number") ? "descending" : "ascending";
      const other = first === "ascending" ? "descending" : "ascending";
      const order = heading.getAttribute("aria-sort") === first ? other : first;
      for (const other of table.querySelectorAll("thead th")) other.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", order);
      const sign = order === "ascending" ? 1 : -1;
      const rows = [...table.tBodies[0].rows].map((row) => [keyOf(row, index), row]);
      rows.sort(([a], [b]) => a.empty - b.empty || (a.empty ? 0 : sign * compare(a, b)));
      table.tBodies[0].append(...rows.map(([, row]) => row));
    });
  }
}
for (const input of document.querySelectorAll("input[type=search]")) {
  const table = document.getElementById(input.getAttribute("aria-controls"));
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/);
    for (const row of table.tBodies[0].rows) {
      const text = [...row.cells].filter((cell) => cell.className !== "command").map((cell) => cell.textContent).join(" ").toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
  });
}
for (const code of document.querySelectorAll(".command code")) {
  code.addEventListener("click", () => {
    code.parentElement.classList.toggle("open");
    navigator.clipboard?.writeText(code.textContent).catch(() => {});
  });
}
